// What an operator sees.
const tiles = [
  { name: 'Accepted', unit: '/s', of: f => f.all.accepted },
  { name: 'Refused', unit: '/s', of: f => f.all.refused },
  { name: 'Limited', unit: '/s', of: f => f.all.limited },
  { name: 'Failed', unit: '/s', of: f => f.all.failed },
  { name: 'Durable orders', unit: '/s', of: f => f.all.durable },
  { name: 'p99 of an order', unit: 'ms', of: f => f.all.p99_ms, none: '–' },
  { name: 'Queue of this sale', unit: n => n === 1 ? 'order' : 'orders', of: f => f.queued },
  { name: 'Drift of this sale', unit: n => n === 1 ? 'unit' : 'units', of: f => f.balance ? f.balance.drift : 0 },
];

function makeTiles() {
  for (const tile of tiles) {
    const box = make('div'), value = make('dd');
    tile.number = make('span', '', '–');
    tile.what = make('small', '', typeof tile.unit === 'string' ? tile.unit : '');
    value.append(tile.number, ' ', tile.what);
    const picture = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    tile.path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    picture.setAttribute('class', 'spark');
    picture.setAttribute('viewBox', '0 0 59 20');
    picture.setAttribute('preserveAspectRatio', 'none');
    picture.setAttribute('aria-hidden', 'true');
    tile.path.setAttribute('vector-effect', 'non-scaling-stroke');
    picture.append(tile.path);
    box.append(make('dt', '', tile.name), value, picture);
    $('tiles').append(box);
    tile.values = [];
  }
}

const shortName = node => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(node) ? node.slice(0, 8) : node;

function showFigures(figures) {
  for (const tile of tiles) {
    const value = tile.of(figures);
    keep(tile.values, value, 60);
    text(tile.number, value === 0 && tile.none || rate(value));
    if (typeof tile.unit !== 'string') text(tile.what, tile.unit(value));
    tile.path.setAttribute('d', line(tile.values, 60, 20));
  }
  showLaw(figures);
  const rows = figures.nodes.map(n => {
    const row = make('tr'), name = make('th', '', shortName(n.node)), keeps = make('td');
    name.scope = 'row';
    name.title = n.node;
    if (n.here && figures.nodes.length > 1) name.append(make('small', 'soft', ' (answers you)'));
    n.some.slice(0, 4).forEach((sku, i) => keeps.append(i ? ', ' : '', make('span', sku === sale.snapshot.sale.sku ? 'keeps' : '', sku)));
    if (n.keeps > 4) keeps.append(` and ${count(n.keeps - 4)} more`);
    if (n.keeps === 0) keeps.append('–');
    row.append(name, keeps);
    for (const value of [rate(n.accepted), rate(n.refused), rate(n.limited), rate(n.failed), rate(n.durable), n.p99_ms > 0 ? rate(n.p99_ms) + ' ms' : '–', span(n.up_s)]) {
      row.append(make('td', '', value));
    }
    return row;
  });
  $('nodes').replaceChildren(...rows);
  $('alone').hidden = !sale.snapshot.missing.includes('mysql');
}

// showLaw is the conservation law, as the sale's keeper last found it between
// two of its steps: exact, however busy the sale is.
function showLaw({ balance: b, keeper }) {
  const { missing, direct, sold, sale: { total } } = sale.snapshot;
  let state = '', sign = '…', sum = 'Not compared yet.', word = keeper ? '' : 'No node reports this sale.';
  if (b) sum = `${count(b.total)} units = ${count(b.available)} left + ${count(b.queued)} on their way + ${count(b.sold)} sold + ${count(b.restoring)} coming back`;
  const age = b && (b.age_ms < 5000 ? 'a moment ago' : span(Math.round(b.age_ms / 1000)) + ' ago');
  if (direct) {
    sum = `${count(sold)} of ${count(total)} units sold`;
    word = 'Sold past the gate: there is nothing to compare, and MySQL alone counts.';
  } else if (b && b.drift !== 0) {
    [state, sign] = ['broken', '✕'];
    word = `${units(Math.abs(b.drift))} ${b.drift > 0 ? 'missing' : 'too many'}, compared ${age}. The keeper repairs what stays off.`;
  } else if (missing.length) {
    word = b ? `It added up when it was last compared, ${age}.` : 'It can’t be compared while a store is away.';
  } else if (b) {
    [state, sign] = ['holds', '✓'];
    word = `It adds up. Compared ${age}${b.age_ms < 5000 ? '' : ', and nothing has changed since'}.`;
  }
  // Its age changes every second: only what it comes to is told.
  if (state && state !== $('law').dataset.state) text($('spoken'), state === 'holds' ? 'All units add up.' : `Units do not add up: ${word}`);
  $('law').dataset.state = state;
  text($('law-sign'), sign);
  text($('law-sum'), sum);
  text($('law-word'), word);
}

function showOperator() {
  const on = Boolean(tokens.operator);
  tell('', '');
  $('gate').hidden = on;
  $('figures').hidden = $('operator-actions').hidden = !on;
  $('restock').hidden = !demo;
}

// tell answers the operator.
function tell(kind, words) {
  $('operator-answer').dataset.kind = kind;
  text($('operator-answer'), words);
}

// enter opens the stream again, as an operator's. What had the focus is gone.
function enter(token) {
  tokens.set('operator', token);
  showOperator();
  $('figures').focus({ preventScroll: true });
  connect();
}

function leave() {
  tokens.set('operator', null);
  showOperator();
  ($('enter') || $('token')).focus();
  connect();
}

// use takes a token that was pasted, for whoever it is. The first call with it
// finds out whether it is good.
async function use(token) {
  const { sub, scope = '' } = claims(token);
  if (!sub) return tell('no', 'That is no token.');
  if (scope.split(' ').includes('admin')) return enter(token);
  tokens.set('buyer', token);
  tell('yes', `You order as ${sub}.`);
  await startBuying();
  $('order').focus();
}

// restock reads the sale's terms and writes them back with more units.
async function restock() {
  const path = encodeURIComponent(sale.snapshot.sale.sku);
  tell('wait', 'Adding 100 units…');
  let { status, body } = await call('GET', 'v1/sales/' + path);
  if (status === 200) {
    const { sku, available, state, ...terms } = body;
    ({ status, body } = await call('PUT', 'v1/admin/sales/' + path, { token: tokens.operator, body: { ...terms, total: terms.total + 100 } }));
  }
  if (status === 200) tell('yes', '100 units were added.');
  else tell('no', body.detail || noAnswer);
}

const noAnswer = 'No answer came. Try again in a moment.';

makeTiles();
$('enter')?.addEventListener('click', async () => {
  const token = await demoToken('operator');
  if (token) enter(token);
  else tell('no', noAnswer);
});
$('sign')?.addEventListener('submit', event => { event.preventDefault(); use($('token').value.trim()); $('token').value = ''; });
$('leave').addEventListener('click', leave);
$('restock').addEventListener('click', restock);
