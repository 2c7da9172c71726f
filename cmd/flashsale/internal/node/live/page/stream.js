// The stream of snapshots and the choice of the sale.
const stream = { sku: '', stop: null, sales: [], seen: {}, newer: '', absent: '' }; // seen: time of the first sight, by SKU; absent: the SKU of the address if there is no such sale

function live() {
  if ($('link').dataset.state === 'lost') look(); // another server may reject our token
  showLink('live', 'Live');
}

// connect ends the previous stream and reads the stream of the current sale.
async function connect() {
  stream.stop?.abort();
  const { signal } = stream.stop = new AbortController();
  await keepListening('v1/live?sku=' + encodeURIComponent(stream.sku), null, signal, {
    history: history => { live(); showHistory(history); }, sale: showSnapshot,
  });
  if (signal.aborted) return;
  stream.sku = ''; // choose shows the sale again if it exists by now
  choose();
}

// choose reads the list of sales and shows the sale of the address (#SKU), or else an open one, a
// scheduled one, or the first.
async function choose() {
  const { status, body } = await call('GET', 'v1/sales');
  if (status === 200) {
    body.sales.forEach(s => { stream.seen[s.sku] ??= stream.sku ? performance.now() : -Infinity; });
    stream.sales = body.sales;
    showChoice();
    showOrders(); // the names of the sales may be new
    const asked = location.hash.slice(1);
    const sells = body.sales.filter(s => !judged(s)), firstIn = state => sells.find(s => s.state === state);
    const first = body.sales.find(s => s.sku === asked) || firstIn('open') || firstIn('scheduled') || sells[0] || body.sales[0];
    const still = body.sales.some(s => s.sku === stream.sku);
    if (first && (!still || first.sku === asked && asked !== stream.sku)) show(first.sku);
    showAbsent(first && first.sku !== asked ? asked : '', body.sales.find(s => s.sku === stream.sku));
    showNewer();
    if (!first) {
      live();
      showNothing();
    }
  } else if (!stream.sku) {
    showLink('lost', 'Reconnecting');
  }
  clearTimeout(choose.timer);
  const wait = stream.sku ? Math.max(5000, stream.sales.length * 100) : 1000;
  choose.timer = setTimeout(choose, Math.max(wait, limited.until - performance.now()));
}

// showAbsent tells the buyer that the page shows another sale than the address asks for.
function showAbsent(sku, shown) {
  if (sku !== stream.absent) answer(...sku ? ['wait', `There is no sale “${sku}”. This is ${shown.name}.`] : ['', '']);
  stream.absent = sku;
}

function showNothing() {
  text($('name'), 'Nothing is on sale yet');
  text($('description'), 'The next sale shows here as soon as there is one.');
  document.querySelector('.sale').dataset.state = 'none';
  $('main').setAttribute('aria-busy', 'false');
}

function show(sku) {
  stream.sku = sku;
  buying.attempt = null;
  Object.assign(sale, { snapshot: null, aheads: [], began: 0, points: [], marks: [], state: '', trouble: '' });
  $('main').setAttribute('aria-busy', 'true');
  showChoice();
  connect();
}

function showChoice() {
  $('pick').hidden = stream.sales.length < 2;
  const list = $('sku'), names = stream.sales.map(s => s.sku);
  if (names.join() !== [...list.options].map(o => o.value).join()) {
    const twice = s => stream.sales.filter(other => other.name === s.name).length > 1;
    list.replaceChildren(...stream.sales.map(s => new Option(twice(s) ? `${s.name} (${s.sku})` : s.name, s.sku)));
  }
  list.value = stream.sku;
}

// showNewer offers a sale that is new since the page was opened, for two minutes. It offers the
// sale of a load test while the test runs. Its opening time says nothing, because a load test
// creates a sale that opened in the past. At its end it closes the sale.
function showNewer() {
  const isNew = s => judged(s) || performance.now() - stream.seen[s.sku] < 120000;
  const newer = sale.snapshot && stream.sales.find(s => s.sku !== stream.sku && (s.state === 'open' || s.state === 'sold_out') && isNew(s));
  $('newer').hidden = !newer;
  if (!newer) return;
  stream.newer = newer.sku;
  text($('newer'), `Watch ${newer.name}${judged(newer) ? '' : ', just opened'}`);
}

// The skip link must not change the address, which contains the SKU.
document.querySelector('.skip').addEventListener('click', event => { event.preventDefault(); $('main').focus(); });
$('newer').addEventListener('click', () => { location.hash = stream.newer; $('newer').hidden = true; });
$('sku').addEventListener('change', () => { location.hash = $('sku').value; });
$('crowd')?.addEventListener('click', async () => answer(...await sendCrowd(stream.sku, sale.state), 'crowd'));
addEventListener('hashchange', choose);
addEventListener('online', () => stream.sku && connect());
setInterval(showClock, 200);
setInterval(() => performance.now() > limited.until && buying.orders.some(o => o.status === 'pending_payment' || o.status === 'reserved') && !document.hidden && look(), 5000);
$('link').hidden = false; // without JavaScript, the state of the connection is hidden
startBuying();
choose();
