// The actions of an operator: change a sale, find orders.
// asking describes the open dialog. sure holds the changed terms that wait for a confirmation.
const asking = { action: '', sku: '', terms: null, sure: null };
const match = sale => ({ 'If-Match': `"${sale.version}"` });
const admin = (method, path, body, headers) => call(method, 'v1/admin/' + path, { token: tokens.operator, body, headers });

// written returns the terms of a sale as the form shows them. Its times are local.
const local = at => at ? new Date(Date.parse(at) - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace(/:00$/, '') : '';
const written = t => ({ ...t, price: t.price === undefined ? '' : (t.price / 10 ** places(t.currency)).toFixed(places(t.currency)), opens_at: local(t.opens_at), closes_at: local(t.closes_at) });
const inputs = [...document.querySelectorAll('#terms [name]')];
const fields = [...inputs, $('units')];
const labelOf = name => inputs.find(i => i.name === name)?.labels[0].firstChild.textContent.trim() || name;

// entered returns the terms in the form. A field that was not edited keeps its exact value.
function entered() {
  const { version, available, state, ...terms } = asking.terms, was = written(terms);
  for (const { name, value } of inputs) if (value !== String(was[name] ?? '')) terms[name] = value;
  for (const name of ['total', 'per_buyer_limit', 'payment_window_s']) terms[name] = Number(terms[name]);
  terms.price = Number((inputs.find(i => i.name === 'price').value * 10 ** places(terms.currency)).toFixed(6));
  terms.name ||= terms.sku;
  const opens = terms.opens_at ? new Date(terms.opens_at) : new Date(ops.all.now);
  const closes = terms.closes_at ? new Date(terms.closes_at) : new Date(+opens + 86400000);
  return { ...terms, opens_at: opens.toISOString(), closes_at: closes.toISOString() };
}

// setFault shows what is wrong with a field beside it. Without words, it removes the message.
function setFault(input, words = '') {
  const id = 'wrong-' + (input.name || input.id), note = $(id) || input.closest('.field').appendChild(Object.assign(make('small', 'wrong'), { id }));
  text(note, words);
  input.setAttribute('aria-describedby', id);
  input.setAttribute('aria-invalid', words !== '');
}

// inWords describes a fault with the labels and amounts of the form instead of the API's.
function inWords({ field, detail }, label = labelOf(field)) {
  const digits = places(inputs.find(i => i.name === 'currency').value);
  return `${label} ${detail}.`.replace(/\b[a-z]+(_[a-z]+)+\b/g, name => `“${labelOf(name)}”`)
    .replace(/(\d+) minor units/, (all, n) => count(n / 10 ** digits)).replace(/\d{5,}/g, n => count(n));
}

// mark shows each fault beside its field and focuses the first such field. It returns the faults
// that belong to no visible field.
function mark(faults) {
  const rest = new Set(faults);
  let first;
  for (const input of fields) {
    const fault = !input.matches(':disabled') && faults.find(e => e.field === (input.name || 'total'));
    setFault(input, fault ? fault.words || inWords(fault, labelOf(input.name) || 'The total') : '');
    if (fault) first ||= input;
    rest.delete(fault);
  }
  first?.focus();
  return [...rest].map(fault => fault.words || inWords(fault)).join('\n');
}

// differences describes how two versions of a sale differ.
function differences(from, to) {
  const [was, is] = [written(from), written(to)].map(t => name => String(t[name] ?? '').replace(/^([\d-]{10})T/, '$1 ') || 'none');
  return inputs.filter(({ name }) => was(name) !== is(name)).map(({ name }) => `${labelOf(name)}: ${was(name)} → ${is(name)}`).join('\n');
}

const put = ({ sku, ...terms }, headers) => admin('PUT', 'sales/' + encodeURIComponent(sku), terms, headers);
const actions = {
  create: {
    name: 'Create', says: () => 'Without a name, the sale is called like its SKU. Without times, it opens now for 24 hours.',
    send: () => put(entered(), { 'If-None-Match': '*' }),
    done: s => { location.hash = s.sku; return `Created: ${title(s)}, ${units(s.total)} at ${money(s.price, s.currency)}.`; },
  },
  change: {
    name: 'Change', says: () => 'Existing orders keep their price and their time to pay.',
    send: () => put(asking.sure, match(asking.terms)), done: s => `Changed: ${title(s)}.`,
  },
  restock: {
    name: 'Restock', says: s => `Total is ${count(s.total)}, of which ${count(s.available)} are available. A number below 0 takes units away.`,
    send: ({ available, state, version, ...terms }) => put({ ...terms, total: terms.total + Number($('units').value) }, match({ version })),
    done: s => `Restocked: total is ${count(s.total)} now.`,
  },
  close: {
    name: 'Close', says: s => `It closes ${when(s.closes_at)}. If you close it now, no more units are sold. Existing orders can still be paid.`,
    send: s => admin('POST', `sales/${s.sku}/close`, null, match(s)), done: () => 'Closed.',
  },
  rebuild: {
    name: 'Rebuild', says: () => 'The gate in Redis is rebuilt from MySQL. Buyers may receive 503 for a moment.',
    send: s => admin('POST', `sales/${s.sku}/rebuild`), done: a => `Rebuilt: ${count(a.available)} available, ${count(a.sold)} sold.`,
  },
};

// readTerms reads the sale of the dialog and shows it. It keeps the edited fields of the form.
async function readTerms() {
  const { status, body } = await call('GET', 'v1/sales/' + asking.sku);
  if (status === 200) showTerms(body);
  return status === 200;
}

function showTerms(terms) {
  const was = asking.terms && written(asking.terms), is = written(terms);
  for (const input of inputs) if (!was || input.value === String(was[input.name] ?? '')) input.value = is[input.name] ?? '';
  asking.terms = terms;
  text($('ask-title'), asking.sku ? `${actions[asking.action].name} ${title(terms)}?` : 'New sale');
  text($('ask-says'), actions[asking.action].says(terms));
}

async function ask(action) {
  const isNew = action === 'create';
  Object.assign(asking, { action, sku: isNew ? '' : ops.sku, terms: null });
  if (isNew) showTerms({ currency: 'EUR', per_buyer_limit: 1, payment_window_s: 900, reserve_on: 'order' });
  else if (!await readTerms()) return say('answer', 'no', noAnswer);
  $('ask-units').hidden = $('units').disabled = action !== 'restock';
  $('units').value = '';
  $('terms').hidden = $('terms').disabled = !isNew && action !== 'change';
  for (const field of document.querySelectorAll('[data-new]')) field.hidden = field.querySelector('[name]').disabled = !isNew;
  mark([]);
  say('answer', '', '');
  unsure();
  $('ask').showModal();
}

// unsure requires another review of the terms.
function unsure() {
  asking.sure = null;
  text($('ask-yes'), asking.action === 'change' ? 'Review' : actions[asking.action].name);
  say('ask-answer', '', '');
}

// review shows the changes of the terms, which the next press of the button sends.
function review() {
  const terms = entered(), changes = differences(asking.terms, terms);
  say('ask-answer', changes ? 'wait' : 'no', changes || 'Nothing is different.');
  if (changes) asking.sure = terms;
  text($('ask-yes'), changes ? 'Confirm' : 'Review');
}

async function confirm() {
  const { action, terms } = asking;
  if (!$('terms').disabled && !Number.isInteger(entered().price)) return unsure(), mark([{ field: 'price', words: `Price has too many decimals for ${entered().currency}.` }]);
  if (action === 'change' && !asking.sure) return review();
  say('ask-answer', 'wait', 'Asking…');
  const { status, body } = await actions[action].send(terms);
  if (status === 200 || status === 201) {
    $('ask').close();
    return say('answer', 'yes', actions[action].done(body));
  }
  unsure();
  const faults = body.code === 'below_sold' ? [{ field: 'total', words: body.detail }] : body.errors, unmarked = mark(faults || []);
  if (status !== 412) return say('ask-answer', 'no', faults ? unmarked : body.detail || noAnswer);
  if (action === 'create') {
    location.hash = entered().sku;
    return say('ask-answer', 'no', 'Nothing was changed: there is a sale with this SKU already. The page behind this form shows it.');
  }
  // A node may return the old terms for up to two seconds.
  for (let tries = 0; tries < 8 && asking.terms.version === terms.version; tries++) await pause(400), await readTerms();
  say('ask-answer', 'no', `Nothing was changed: another operator has changed this sale. The new state is shown above.\n${differences(terms, asking.terms)}\nDo you still want to?`);
}

let search; // the latest search; responses to earlier searches are dropped

// find shows the order with this id, or a page of the orders of this buyer.
async function find(what = $('what').value.trim(), cursor = '') {
  const path = /^[0-9a-f-]{36}$/.test(what) ? 'orders/' + what : `orders?limit=20&buyer=${encodeURIComponent(what)}&cursor=${cursor}`;
  const current = search = {};
  const { status, body } = await admin('GET', path);
  if (current !== search) return;
  const list = body.orders || (status === 200 ? [body] : []);
  if (!cursor) $('orders').replaceChildren();
  $('more').hidden = !body.next_cursor;
  $('more').onclick = () => find(what, body.next_cursor);
  const none = status === 200 || status === 404;
  say('found', none ? 'wait' : 'no', list.length ? '' : none ? `There is no order of ${what}.` : body.detail || noAnswer);
  $('orders').append(...list.map(o => {
    const item = make('li'), times = ['created', 'expires', 'paid', 'closed'].filter(t => o[t + '_at']).map(t => `${t} ${when(o[t + '_at'])}`);
    const { trace } = document.body.dataset;
    item.append(make('b', '', `${o.quantity} × ${o.sku}, ${money(o.amount, o.currency)}: ${o.status.replace('_', ' ')}`),
      make('span', '', `${o.buyer}, ${o.idempotency_key ? `key ${o.idempotency_key}, ` : ''}${times.join(', ')}`), make('code', '', o.id));
    if (trace) item.append(Object.assign(make('a', '', 'Trace'), { href: trace.replaceAll('{order}', o.id), target: '_blank', rel: 'noreferrer' }));
    return item;
  }));
}

const on = (id, event, act) => $(id)?.addEventListener(event, e => { if (event === 'submit') e.preventDefault(); act(e); });
for (const button of document.querySelectorAll('[data-action]')) button.addEventListener('click', () => ask(button.dataset.action));
on('ask', 'submit', confirm);
on('ask', 'input', ({ target }) => { setFault(target); unsure(); });
on('range', 'change', drawCharts);
for (const zone of document.querySelectorAll('.zone')) text(zone, moment.resolvedOptions().timeZone);
on('crowd', 'click', async () => say('answer', ...await sendCrowd(ops.sku, ops.all.sales.find(s => s.sale.sku === ops.sku)?.sale.state)));
on('ask-no', 'click', () => $('ask').close());
addEventListener('pointerdown', () => say('answer', '', ''));
on('leave', 'click', () => signOut());
on('sign', 'submit', () => { tokens.set('operator', $('token').value.trim()); $('sign').reset(); say('answer', '', ''); start(); });
on('fold', 'click', () => { ops.unfolded = !ops.unfolded; showSales(ops.all.sales); });
on('find', 'submit', () => find());
addEventListener('hashchange', () => { if (ops.all) show(ops.all); });
// The dashed line of durable orders leaves the wide line of accepted orders visible.
addChart('rates', [['Accepted', '--band', 'accepted', 6], ['Refused', '--warn', 'refused'], ['Limited', '--violet', 'limited'], ['Failed', '--bad', 'failed'], ['Durable', '--ink', 'durable', 2, [6, 5]]], { points: () => ops.points, unit: '/s', rare: ['refused', 'limited', 'failed'] });
addChart('p99', [['p99', '--blue', 'p99_ms']], { points: () => ops.points, unit: ' ms', limits: [[500, '--warn'], [1000, '--bad']] });
addChart('stock', [['Available', '--accent', 'available'], ['Sold', '--good', 'sold']], { points: () => ops.stock, marks: () => ops.marks });
setInterval(showSilence, 500);
start();
