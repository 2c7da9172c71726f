// The actions of a buyer: order, pay, cancel.
const buying = {
  quantity: 1,
  busy: '',   // label of the action in progress
  from: 0,    // end of the wait after too many requests
  calm: 0,    // the button is inactive until this time, against a double click after its label has changed
  run: null,  // action of the button
  attempt: null, // {key, sku, quantity} of an order with unknown outcome
  orders: [],
  subject: '', // id of the order that the answer is about, or "crowd"
  refs: {},   // payment references by order id, so that a retry uses the same reference
  asked: 0, shown: 0, // numbers of the latest request of the orders and of the latest shown one
};

function answer(kind, words, subject = '') {
  buying.subject = subject;
  say('answer', kind, words);
}

// due returns the unpaid order of this sale that expires first.
const due = () => buying.orders.filter(o => o.sku === stream.sku && o.status === 'pending_payment' && Date.parse(o.expires_at) > now())
  .sort((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at))[0];

// allowed returns the number of units that the buyer may still order.
function allowed() {
  const mine = buying.orders.filter(o => o.sku === stream.sku && ['reserved', 'pending_payment', 'paid'].includes(o.status));
  return Math.min(sale.snapshot.sale.per_buyer_limit - mine.reduce((sum, o) => sum + o.quantity, 0), 10);
}

// action returns the label and the action of the button, and the hint below it.
function action() {
  const s = sale.snapshot.sale, wait = buying.from - performance.now(), unpaid = due();
  if (judged(s)) return { hint: sale.state === 'closed' ? 'A load test has judged this sale.' : 'A load test is judging this sale: watch it. You cannot buy here.' };
  if (!demo && !tokens.buyer) return { hint: 'To order, sign in under “Your orders”.' };
  if (buying.busy) return { label: buying.busy };
  if (wait > 0) return { label: `Wait ${Math.ceil(wait / 1000)} s` };
  if (unpaid) return { label: `Pay ${money(unpaid.amount, unpaid.currency)}`, order: unpaid, run: () => settle(unpaid.id, 'pay'), hint: 'It is yours once it is paid.' };
  const label = { scheduled: 'Not open yet', sold_out: 'Sold out', closed: 'Closed' }[sale.state];
  if (label) return { label, hint: hints[sale.state] };
  if (allowed() < 1) return { label: `Limit reached: ${units(s.per_buyer_limit)}`, hint: 'You have ordered the maximum per buyer.' };
  return { label: `Buy ${buying.quantity} · ${money(s.price * buying.quantity, s.currency)}`, run: () => act('Ordering…', order), hint: `Then you have ${span(s.payment_window_s)} to pay.` };
}

function showButton() {
  if (!sale.snapshot) return;
  buying.quantity = Math.max(1, Math.min(buying.quantity, allowed()));
  const { label, order: pay, run, hint = '' } = action();
  buying.run = performance.now() < buying.calm ? null : run;
  $('buy').hidden = !label;
  for (const id of ['order', 'drop']) $(id).setAttribute('aria-disabled', String(!buying.run));
  text($('label'), label || '');
  text($('due'), pay ? clock(timeLeft(pay)) : '');
  $('amount').hidden = Boolean(pay);
  $('drop').hidden = !pay;
  text($('hint'), hint);
  text($('quantity'), String(buying.quantity));
  const over = sale.state === 'sold_out' || sale.state === 'closed';
  $('less').setAttribute('aria-disabled', String(over || buying.quantity <= 1));
  $('more').setAttribute('aria-disabled', String(over || buying.quantity >= allowed()));
}

// timeLeft returns the time to pay an order in ms.
const timeLeft = o => Date.parse(o.expires_at) - now();

// saleOf returns the sale from the latest list, or {} if it is no longer listed.
const saleOf = sku => stream.sales.find(s => s.sku === sku) || {};

const refusals = {
  sold_out: () => sale.snapshot?.sale.available > 0 ? 'Fewer units are left than you asked for.'
    : 'Sold out. Units may come back on sale: watch the number.',
  buyer_limit: (s, detail) => /many orders/.test(detail) ? detail : `You have the maximum per buyer: ${units(s.per_buyer_limit)}.`,
  not_open: () => 'A moment too early: the sale is not open yet.',
  closed: () => 'The sale is over.',
};

// act runs an action. Meanwhile the button is inactive and shows the label.
async function act(label, run) {
  buying.busy = label;
  showButton();
  try {
    await run();
  } catch (error) { // a fault of the page, see broken
    answer('no', 'The page failed. The outcome is unknown. If you press again, the page repeats the same request.');
    throw error;
  } finally {
    buying.busy = '';
    buying.calm = performance.now() + 700;
    showClock();
  }
}

// order sends an order and retries with the same key until the outcome is known. The same key
// cannot buy twice.
async function order() {
  const mine = buying.attempt || { key: random(), sku: sale.snapshot.sale.sku, quantity: buying.quantity };
  buying.attempt = mine;
  answer('wait', 'Asking…');
  const until = performance.now() + 60000;
  while (!await ask(mine, until) && performance.now() < until);
  if (buying.attempt) answer('wait', 'Still no response. Press again: this repeats the same order.');
  look();
}

// ask sends the order once and returns true if the outcome is known.
async function ask(mine, until) {
  const { status, body, location, retry } = await call('POST', 'v1/orders', {
    token: tokens.buyer, body: { sku: mine.sku, quantity: mine.quantity }, headers: { 'Idempotency-Key': mine.key },
  });
  const done = (kind, words, subject) => { buying.attempt = null; answer(kind, words, subject); return true; };
  if (status === 201) return bought(body, done);
  if (status === 202) return follow(location, done, until);
  if (status === 409 && refusals[body.code]) return done('no', refusals[body.code](saleOf(mine.sku), body.detail));
  if (status === 429) {
    buying.from = performance.now() + retry * 1000;
    return done('wait', `Too many requests. You may try again in ${retry} s.`);
  }
  if (status === 401) return await refused() ? false : done('no', foreign);
  if (status >= 400 && status < 500) return done('no', body.detail || 'The order was refused.');
  answer('wait', status === 0 ? 'No response. Trying again with the same key: you can’t buy twice.'
    : `The shop could not decide. Trying again in ${retry} s with the same key: you can’t buy twice.`);
  await pause(retry * 1000);
  return false;
}

// keep replaces an order in the buyer's list, or adds it at the beginning.
function keep(o) {
  const known = buying.orders.some(x => x.id === o.id);
  buying.orders = known ? buying.orders.map(x => x.id === o.id ? o : x) : [o, ...buying.orders];
  showOrders();
}

function bought(o, done) {
  keep(o);
  return done('yes', yours(o), o.id);
}

function yours(o) {
  if (o.status === 'paid') return `Paid: ${units(o.quantity)}. Thank you.`;
  if (saleOf(o.sku).reserve_on === 'payment') return `Noted: ${units(o.quantity)}, taken when you pay.`;
  return `Yours: ${units(o.quantity)}. Pay in time to keep ${o.quantity === 1 ? 'it' : 'them'}.`;
}

// follow polls a queued order until it is durable or rejected. If the order is lost, it returns
// false, and order retries with the same key.
async function follow(location, done, until) {
  answer('wait', 'Your order is being stored. Nothing is promised yet.');
  for (let wait = 500; performance.now() < until;) {
    await pause(wait);
    const { status, body, retry } = await call('GET', location, { token: tokens.buyer });
    if (status === 404 || status === 401) return false;
    wait = status === 200 ? 500 : retry * 1000;
    if (status !== 200 || body.status === 'reserved') continue;
    if (body.status === 'rejected') return done('no', refusals[body.reason] ? refusals[body.reason](saleOf(body.sku)) : 'The order was rejected. Nothing was sold.');
    return bought(body, done);
  }
  return false;
}

// look reads and shows the buyer's orders.
async function look() {
  if (!tokens.buyer) return;
  const mine = ++buying.asked;
  const { status, body } = await call('GET', 'v1/orders?limit=20', { token: tokens.buyer });
  if (status === 401 && !await refused()) say('sign-answer', 'no', foreign);
  if (status !== 200 || mine < buying.shown) return; // a later response has been shown
  buying.shown = mine;
  buying.orders = body.orders;
  const ended = body.orders.find(o => o.id === buying.subject && o.status !== 'pending_payment'); // the answer asks to pay it
  if (ended) answer(...ended.status === 'expired' ? ['wait', 'Your order has expired: it was not paid in time.'] : ['', '']);
  showOrders();
}

const statuses = { reserved: 'On its way', pending_payment: 'To be paid', paid: 'Paid', cancelled: 'Cancelled', expired: 'Expired', rejected: 'Rejected' };

// showOrders updates the list of orders. It reuses the elements of an order, so that a focused
// button keeps the focus.
function showOrders() {
  const list = $('orders');
  $('none').hidden = buying.orders.length > 0 || !demo && !tokens.buyer;
  buying.orders.forEach((o, i) => {
    let item = $('order-' + o.id);
    if (!item) {
      item = $('one').content.firstElementChild.cloneNode(true);
      item.id = 'order-' + o.id;
      for (const button of item.querySelectorAll('button')) {
        button.setAttribute('aria-label', `${button.textContent} ${units(o.quantity)} for ${money(o.amount, o.currency)}`);
        button.addEventListener('click', () => settle(o.id, button.value));
      }
    }
    if (list.children[i] !== item) list.insertBefore(item, list.children[i] || null);
    item.dataset.status = o.status;
    text(item.children[0], `${o.quantity} × ${saleOf(o.sku).name || o.sku} · ${money(o.amount, o.currency)}`);
    text(item.children[1], statuses[o.status]);
    item.lastElementChild.hidden = o.status !== 'pending_payment';
  });
  while (list.children.length > buying.orders.length) list.lastElementChild.remove();
  showRemaining();
}

// showRemaining shows the time left to pay each order.
function showRemaining() {
  if (!sale.snapshot) return;
  for (const o of buying.orders) {
    const says = $('order-' + o.id)?.querySelector('.says');
    if (!says || says.dataset.until > performance.now()) continue;
    const left = timeLeft(o);
    text(says, o.status !== 'pending_payment' ? closing(o) : left > 0 ? `${clock(left)} left` : 'Expired.');
    if (o.status === 'pending_payment' && left < -500 && !o.late) {
      o.late = true;
      setTimeout(look, 1000);
    }
  }
}

const closing = o => ({
  paid: 'Thank you.', cancelled: 'You owe nothing.', expired: 'Not paid in time.',
  reserved: 'Being stored. Nothing is promised yet.',
}[o.status] || '');

// settle pays or cancels an order. Without a response, it retries with the same reference.
async function settle(id, what) {
  const item = $('order-' + id), focused = item.contains(document.activeElement), label = what === 'pay' ? 'Paying…' : 'Cancelling…';
  await act(label, () => send(id, what, label));
  if (focused && item.lastElementChild.hidden) item.focus(); // the focused button is hidden
}

async function send(id, what, label) {
  const says = $('order-' + id).querySelector('.says');
  const note = words => { says.dataset.until = performance.now() + 4000; text(says, words); answer('wait', words); };
  note(label);
  buying.refs[id] ||= 'page-' + random();
  for (const until = performance.now() + 30000; performance.now() < until;) {
    const { status, body, retry } = await call('POST', `v1/orders/${id}/${what}`, {
      token: tokens.buyer, body: what === 'pay' ? { payment_ref: buying.refs[id] } : undefined,
    });
    if (status === 200) {
      says.dataset.until = 0;
      keep(body);
      answer('yes', what === 'pay' ? yours(body) : 'Cancelled. You owe nothing.');
      break;
    }
    if (status === 429 || status === 0 || status >= 500 || body.code === 'in_progress') {
      note(status === 429 ? `Too many requests. Once more in ${retry} s.` : 'No response yet. Trying again: it counts once.');
      await pause(retry * 1000);
      continue;
    }
    note(body.detail || 'The request was refused.');
    $('answer').dataset.kind = 'no';
    break;
  }
  await look();
}

$('buy').addEventListener('submit', event => { event.preventDefault(); buying.run?.(); });
for (const [id, step] of [['less', -1], ['more', 1]]) $(id).addEventListener('click', () => {
  if ($(id).getAttribute('aria-disabled') === 'false') buying.quantity += step;
  showButton();
});
$('drop').addEventListener('click', async () => {
  if ($('drop').getAttribute('aria-disabled') === 'true') return; // the second tap of a double tap on Buy
  await settle(due().id, 'cancel');
  $('order').focus();
});
