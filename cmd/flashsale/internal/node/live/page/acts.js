// The actions of an operator: change a sale, find orders.
const asking = { action: '', sku: '', terms: null }; // the open dialog
const match = sale => ({ 'If-Match': `"${sale.version}"` });
const admin = (method, path, body, headers) => call(method, 'v1/admin/' + path, { token: tokens.operator, body, headers });
const actions = {
  restock: {
    name: 'Restock', says: s => `Total is ${count(s.total)}, of which ${count(s.available)} are available. A number below 0 takes units away.`,
    send: ({ sku, available, state, version, ...terms }) => admin('PUT', 'sales/' + sku, { ...terms, total: terms.total + Number($('units').value) }, match({ version })),
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

// readTerms reads the sale of the dialog and shows it.
async function readTerms() {
  const { status, body } = await call('GET', 'v1/sales/' + asking.sku);
  if (status !== 200) return false;
  asking.terms = body;
  text($('ask-title'), `${actions[asking.action].name} ${title(body)}?`);
  text($('ask-says'), actions[asking.action].says(body));
  return true;
}

async function ask(action) {
  Object.assign(asking, { action, sku: ops.sku });
  if (!await readTerms()) return say('answer', 'no', noAnswer);
  $('ask-units').hidden = $('units').disabled = action !== 'restock';
  $('units').value = '';
  text($('ask-yes'), actions[action].name);
  say('answer', '', '');
  say('ask-answer', '', '');
  $('ask').showModal();
}

async function confirm() {
  const { action, terms } = asking;
  say('ask-answer', 'wait', 'Asking…');
  const { status, body } = await actions[action].send(terms);
  if (status === 200) {
    $('ask').close();
    return say('answer', 'yes', actions[action].done(body));
  }
  if (status === 412) { // a node may return the old terms for up to two seconds
    for (let tries = 0; tries < 8 && asking.terms.version === terms.version; tries++) await pause(400), await readTerms();
  }
  say('ask-answer', 'no', status === 412 ? 'Nothing was changed: another operator has changed this sale. The text above shows its new state. Do you still want to?' : body.detail || noAnswer);
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
  say('found', 'no', list.length ? '' : status === 200 || status === 404 ? `There is no order of ${what}.` : body.detail || noAnswer);
  $('orders').append(...list.map(o => {
    const item = make('li'), times = ['created', 'expires', 'paid', 'closed'].filter(t => o[t + '_at']).map(t => `${t} ${when(o[t + '_at'])}`);
    item.append(make('b', '', `${o.quantity} × ${o.sku}, ${money(o.amount, o.currency)}: ${o.status.replace('_', ' ')}`),
      make('span', '', `${o.buyer}, ${o.idempotency_key ? `key ${o.idempotency_key}, ` : ''}${times.join(', ')}`), make('code', '', o.id));
    return item;
  }));
}

const on = (id, event, act) => $(id)?.addEventListener(event, e => { if (event === 'submit') e.preventDefault(); act(); });
for (const button of document.querySelectorAll('[data-action]')) button.addEventListener('click', () => ask(button.dataset.action));
on('ask', 'submit', confirm);
on('ask-no', 'click', () => $('ask').close());
on('leave', 'click', () => signOut());
on('sign', 'submit', () => { tokens.set('operator', $('token').value.trim()); $('sign').reset(); say('answer', '', ''); start(); });
on('fold', 'click', () => { ops.unfolded = !ops.unfolded; showSales(ops.all.sales); });
on('find', 'submit', () => find());
addEventListener('hashchange', () => { if (ops.all) show(ops.all); });
addChart('rates', [['Accepted', '--good', 'accepted'], ['Refused', '--warn', 'refused'], ['Limited', '--violet', 'limited'], ['Failed', '--bad', 'failed'], ['Durable', '--blue', 'durable']], { points: () => ops.points, unit: '/s' });
addChart('p99', [['p99', '--blue', 'p99_ms']], { points: () => ops.points, unit: ' ms', limits: [[500, '--warn'], [1000, '--bad']] });
addChart('stock', [['Available', '--accent', 'available'], ['Sold', '--good', 'sold']], { points: () => ops.stock, marks: () => ops.marks });
setInterval(showSilence, 500);
start();
