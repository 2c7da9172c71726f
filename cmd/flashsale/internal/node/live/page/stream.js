// The stream of snapshots, and which sale is shown.
const stream = { sku: '', stop: null, sales: [], seen: {}, newer: '' }; // seen: when a sale came, by SKU

function live() {
  if ($('link').dataset.state === 'lost') look(); // it may be another server, which does not know us
  showLink('live', 'Live');
}

// connect follows the sale that is shown, and ends what went before.
async function connect() {
  stream.stop?.abort();
  const { signal } = stream.stop = new AbortController();
  await keepListening('v1/live?sku=' + encodeURIComponent(stream.sku), null, signal, {
    history: history => { live(); showHistory(history); }, sale: showSnapshot,
  });
  if (signal.aborted) return;
  stream.sku = ''; // it may have come back by now, and is then shown anew
  choose();
}

// choose asks what is on sale, and shows what was asked for by #SKU, or what a
// visitor is most likely to want.
async function choose() {
  const { status, body } = await call('GET', 'v1/sales');
  if (status === 200) {
    body.sales.forEach(s => { stream.seen[s.sku] ??= stream.sku ? Date.now() : 0; });
    stream.sales = body.sales;
    showChoice();
    showOrders(); // by the names of their sales
    const asked = location.hash.slice(1);
    const sells = body.sales.filter(s => !judged(s)), is = state => sells.find(s => s.state === state);
    const first = body.sales.find(s => s.sku === asked) || is('open') || is('scheduled') || sells[0] || body.sales[0];
    const still = body.sales.some(s => s.sku === stream.sku);
    if (first && (!still || first.sku === asked && asked !== stream.sku)) show(first.sku);
    showNewer();
    if (!first) {
      live();
      showNothing();
    }
  } else if (!stream.sku) {
    showLink('lost', 'Reconnecting');
  }
  clearTimeout(choose.again);
  const wait = stream.sku ? Math.max(5000, stream.sales.length * 100) : 1000;
  choose.again = setTimeout(choose, Math.max(wait, limited.until - Date.now()));
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
  Object.assign(sale, { snapshot: null, ahead: -Infinity, began: 0, points: [], marks: [], state: '', trouble: '' });
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

// showNewer offers for two minutes a sale that has come since the page was opened,
// and for ten one that a load test judges, even if it was there before.
function showNewer() {
  const at = sale.snapshot ? now() : Date.now(); // the database's clock is known from the first snapshot on
  const lately = s => judged(s) ? Date.parse(s.opens_at) > at - 600000 : Date.now() - stream.seen[s.sku] < 120000;
  const come = stream.sales.find(s => s.sku !== stream.sku && (s.state === 'open' || s.state === 'sold_out') && lately(s));
  $('newer').hidden = !come;
  if (!come) return;
  stream.newer = come.sku;
  text($('newer'), `Watch ${come.name}, just opened`);
}

// The address names the sale, so the way past the header must not change it.
document.querySelector('.skip').addEventListener('click', event => { event.preventDefault(); $('main').focus(); });
$('newer').addEventListener('click', () => { location.hash = stream.newer; $('newer').hidden = true; });
$('sku').addEventListener('change', () => { location.hash = $('sku').value; });
addEventListener('hashchange', choose);
addEventListener('online', () => stream.sku && connect());
setInterval(showClock, 200);
setInterval(() => Date.now() > limited.until && buying.orders.some(o => o.status === 'pending_payment' || o.status === 'reserved') && !document.hidden && look(), 5000);
$('link').hidden = false; // without JavaScript it would say nothing
startBuying();
choose();
