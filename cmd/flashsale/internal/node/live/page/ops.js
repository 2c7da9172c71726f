// The page of operators. All figures are from the latest overview.
const ops = { all: null, sku: '', stop: null, stopSale: null, points: [], stock: [], marks: [], entry: 0, unfolded: false };
const title = s => s.name === s.sku ? s.sku : `${s.name} (${s.sku})`;
const shortName = node => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(node) ? node.slice(0, 8) : node;

// grown adds a point if it is later than all others, and drops points that are ten minutes older.
const grown = (points, p) => p.at <= (points.at(-1)?.at ?? 0) ? points : [...points.filter(q => q.at > p.at - 600000), p];

// start shows the form to sign in, or opens the stream of the overview.
async function start() {
  for (const id of demo ? ['link'] : ['link', 'leave']) $(id).hidden = !demo && !tokens.operator;
  $('board').hidden = true; // until the first overview, so that the content does not move then
  if (demo && !tokens.operator) await demoToken('operator');
  const on = Boolean(tokens.operator);
  $('sign').hidden = on || demo;
  if (!on) return demo ? setTimeout(start, 2000) : $('token').focus();
  ops.stop = new AbortController();
  watch('v1/live', ops.stop.signal, {
    history: ({ began, points }) => { ops.points = points; text($('began'), when(began)); },
    events: ({ events }) => { ops.entry = 0; $('log').replaceChildren(); showLog(events); },
    overview: show,
  });
}

function signOut(why = '') {
  ops.stop.abort();
  ops.stopSale?.abort();
  Object.assign(ops, { all: null, sku: '' });
  tokens.set('operator', null);
  say('answer', 'no', demo ? '' : why);
  start();
}

// watch reads a stream until the operator's token expires.
async function watch(path, stop, handlers) {
  const status = await keepListening(path, tokens.operator, stop, handlers);
  if (stop.aborted) return;
  if (status === 404) ops.sku = ''; // the sale no longer exists: choose another one
  else signOut('That token is not accepted: it is not an operator’s, it has expired, or it was signed with another secret.');
}

// choose returns the sale to show: the one in the address, the current one, an open one, or the
// first. If it is another one than before, choose opens its stream.
function choose() {
  const { sales } = ops.all, named = sku => sales.find(s => s.sale.sku === sku), asked = location.hash.slice(1);
  const chosen = named(asked) || named(ops.sku) || sales.find(s => s.sale.state === 'open' && !judged(s.sale)) || sales[0];
  if (!chosen || chosen.sale.sku === ops.sku) return chosen;
  ops.stopSale?.abort();
  Object.assign(ops, { sku: chosen.sale.sku, stock: [], marks: [], stopSale: new AbortController() });
  ops.unfolded ||= judged(chosen.sale);
  watch('v1/live?sku=' + ops.sku, ops.stopSale.signal, {
    history: ({ points, marks }) => Object.assign(ops, { stock: points, marks }),
    sale: ({ marks }) => { ops.marks = withMarks(ops.marks, marks); },
  });
  return chosen;
}

function show(all) {
  ops.all = all;
  heard = performance.now();
  $('board').hidden = false;
  const chosen = choose(), { missing } = all;
  ops.points = grown(ops.points, all.point);
  showLink('live', 'Live');
  text($('missing'), missing.map(name => `${{ redis: 'Redis', mysql: 'MySQL' }[name]} does not answer. `).join('') +
    (missing.includes('mysql') ? 'Nodes exchange their figures through MySQL, so there are no figures of other nodes.' : ''));
  showTiles(all.all);
  showSales(all.sales);
  $('one').hidden = !chosen;
  if (chosen) {
    ops.stock = grown(ops.stock, { at: Date.parse(all.now), available: chosen.sale.available, sold: chosen.sold });
    showLaw(chosen, missing);
    if (demo) {
      $('crowd').hidden = judged(chosen.sale) || chosen.sale.state === 'closed';
      showCrowd(all, chosen.sale.sku);
    }
  }
  fill($('nodes'), all.nodes.map(n => ({
    key: n.node, cells: [
      { text: shortName(n.node) + (n.here ? ' (this one)' : '') }, n.some.slice(0, 4).join(', ') + (n.keeps > 4 ? ` and ${count(n.keeps - 4)} more` : '') || '–',
      rate(n.accepted), rate(n.refused), rate(n.limited), { text: rate(n.failed), level: levels.failed(n) }, rate(n.durable),
      latency(n), { text: count(n.queued), level: levels.queued(n) }, span(n.up_s),
    ],
  })));
  $('changes').hidden = (all.feed ?? []).length === 0;
  fill($('webhooks'), (all.feed ?? []).map(f => ({
    key: f.name, cells: [
      { text: f.name || 'Feed of changes' },
      { text: f.stopped ? 'Stopped by 410 Gone' : f.failures ? `Failing: ${many(f.failures, 'attempt')}` : 'Up', level: f.stopped || f.failures ? 'bad' : '' },
      { text: f.lag_s > 0 ? span(Math.ceil(f.lag_s)) : '–', level: level(f.lag_s, 60, 300) }, f.error || '–',
    ],
  })));
  showLog(all.events);
  drawCharts();
  showSilence();
}

// showSilence turns the page grey while the node sends no overviews.
function showSilence() {
  const lost = Boolean(ops.all) && silent();
  if (lost === $('board').classList.contains('lost')) return;
  $('board').classList.toggle('lost', lost);
  if (!lost) return;
  const at = hour(ops.all.now);
  text($('missing'), `No connection to this node. The page keeps trying. It shows the state of ${at}.`);
  $('law').dataset.state = '';
  text($('law-sign'), '…');
  text($('law-word'), `At ${at}: ${$('law-word').textContent}`);
}

// levels returns a warning level for a figure. The level of a queue is its time to drain.
const level = (n, warn, bad) => n >= bad ? 'bad' : n >= warn ? 'warn' : '';
const levels = {
  failed: f => level(f.failed, .001, .001), p99_ms: f => level(f.p99_ms, 500, 1000),
  queued: f => level(f.queued / Math.max(100, f.durable), 2, 10),
};
const latency = of => ({ text: of.p99_ms > 0 ? rate(of.p99_ms) + ' ms' : '–', level: levels.p99_ms(of) });

function showTiles(figures) {
  for (const value of document.querySelectorAll('#tiles span')) {
    const { of } = value.dataset;
    text(value, of === 'p99_ms' && !figures[of] ? '–' : rate(figures[of])); // without orders, there is no p99
    value.closest('div').dataset.level = levels[of]?.(figures) || '';
  }
}

const states = { open: 'On sale', sold_out: 'Sold out', scheduled: 'Scheduled', closed: 'Closed' };
function showSales(sales) {
  const rank = s => Object.keys(states).indexOf(s.sale.state);
  const row = s => ({ key: s.sale.sku, current: s.sale.sku === ops.sku, cells: [
    { text: s.sale.name, href: '#' + s.sale.sku, note: s.sale.name === s.sale.sku ? '' : s.sale.sku }, { text: s.direct ? 'Direct mode' : states[s.sale.state], level: s.direct ? 'warn' : '' },
    { text: `${count(s.sold)} of ${count(s.sale.total)}`, part: s.sold / Math.max(1, s.sale.total) }, count(s.sold - s.paid), count(s.paid),
    count(s.sale.available), count(s.queued), latency(s), shortName(s.keeper) || '–',
  ] });
  const sorted = [...sales].sort((a, b) => rank(a) - rank(b)), folded = sorted.filter(s => judged(s.sale));
  fill($('sales'), sorted.filter(s => !judged(s.sale)).map(row));
  fill($('judged'), folded.map(row));
  $('none').hidden = sales.length > 0;
  $('fold').hidden = folded.length === 0;
  $('judged').hidden = !ops.unfolded;
  $('fold').setAttribute('aria-expanded', ops.unfolded);
  text($('fold'), `${ops.unfolded ? 'Hide' : 'Show'} sales of load tests (${folded.length})`);
}

// fill updates the rows of a table by their keys. It reuses the elements of a row, so that a
// focused link keeps the focus.
function fill(body, rows) {
  const labels = body.closest('table').tHead.rows[0].cells;
  for (const [i, { key, cells, current = false }] of rows.entries()) {
    let row = [...body.rows].find(r => r.dataset.key === key);
    if (!row) {
      row = make('tr');
      row.dataset.key = key;
      row.append(...cells.map(({ href }, j) => {
        const cell = Object.assign(make(j ? 'td' : 'th'), j ? {} : { scope: 'row' });
        if (href) cell.append(Object.assign(make('a'), { href }), make('small'));
        cell.dataset.label = labels[j].textContent;
        return cell;
      }));
    }
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null);
    row.setAttribute('aria-current', current);
    for (const [j, cell] of cells.entries()) {
      text(row.cells[j].firstElementChild || row.cells[j], cell.text ?? cell);
      if (cell.href) text(row.cells[j].lastElementChild, cell.note);
      row.cells[j].dataset.level = cell.level || '';
      row.cells[j].style.setProperty('--part', cell.part || 0);
    }
  }
  while (body.rows.length > rows.length) body.lastElementChild.remove();
}

// showLaw shows the audit of a sale like "flashsale audit". The figures are from the keeper's
// last comparison, which is exact even while the sale is busy.
function showLaw({ sale, sold, paid, direct, keeper, balance: b }, missing) {
  let state = '', sign = '…', sum = 'Not compared yet.', word = keeper ? '' : 'No node reports this sale.';
  const age = b && (b.age_ms < 5000 ? 'a moment ago' : span(Math.round(b.age_ms / 1000)) + ' ago');
  if (b) {
    paid = Math.min(paid, b.sold);
    sum = `total ${count(b.total)} = available ${count(b.available)} + queued ${count(b.queued)} + pending ${count(b.sold - paid)} + paid ${count(paid)} + restoring ${count(b.restoring)}`;
  }
  if (direct) {
    sum = `pending ${count(sold - paid)} + paid ${count(paid)} of total ${count(sale.total)}`;
    word = 'Direct mode: there is no gate to compare with MySQL.';
  } else if (b && b.drift !== 0) {
    [state, sign] = ['broken', '✕'];
    word = `${units(Math.abs(b.drift))} ${b.drift > 0 ? 'missing' : 'too many'}, compared ${age}. The keeper repairs lasting drift.`;
  } else if (missing.length) {
    word = b ? `The units added up at the last comparison, ${age}.` : 'The units can’t be compared while a store is down.';
  } else if (b) {
    [state, sign] = ['holds', '✓'];
    word = `The units add up. Compared ${age}${b.age_ms > 5000 && b.sold === sold && b.available === sale.available ? ', and nothing has changed since' : ''}.`;
  }
  if (state && state !== $('law').dataset.state) text($('spoken'), state === 'holds' ? 'All units add up.' : `Units do not add up: ${word}`);
  $('law').dataset.state = state;
  text($('name'), title(sale));
  text($('law-sign'), sign);
  text($('law-sum'), sum);
  text($('law-word'), word);
}

const alarms = { 'Redis away': 'bad', 'MySQL away': 'bad', 'Direct mode begun': 'warn', 'Refund claimed': 'warn' };
function showLog(entries) {
  for (const { id, at, what, sku, says } of entries.filter(e => e.id > ops.entry)) {
    const item = make('li'), kind = make('b', '', what);
    ops.entry = id;
    kind.dataset.level = alarms[what] || '';
    item.append(make('time', '', hour(at)), kind, make('span', '', [sku, says].filter(Boolean).join(': ')));
    $('log').prepend(item);
  }
  while ($('log').children.length > 200) $('log').lastElementChild.remove();
}
