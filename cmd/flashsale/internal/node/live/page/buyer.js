// What a buyer does: order, pay, cancel.
const buying = {
  quantity: 1,
  busy: '',   // what is under way
  from: 0,    // not before this time, after too many requests
  calm: 0,    // nor before this one: the button has just become another, and nobody means to press it twice
  run: null,  // what the button does
  attempt: null, // {key, sku, quantity} whose outcome is not known yet
  orders: [],
  told: '',   // the order of which the answer speaks
  refs: {},   // payment references by order, so that a payment sent again is the same one
  asked: 0, shown: 0, // looks at them, counted
};

function answer(kind, words, told = '') {
  buying.told = told;
  say('answer', kind, words);
}

// due is the order of this sale that is to be paid next.
const due = () => buying.orders.filter(o => o.sku === stream.sku && o.status === 'pending_payment' && Date.parse(o.expires_at) > now())
  .sort((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at))[0];

// allowed is how many units more the buyer may order at once.
function allowed() {
  const mine = buying.orders.filter(o => o.sku === stream.sku && ['reserved', 'pending_payment', 'paid'].includes(o.status));
  return Math.min(sale.snapshot.sale.per_buyer_limit - mine.reduce((sum, o) => sum + o.quantity, 0), 10);
}

// action is the one thing to do now: what the button says, what it does, if
// anything, and what is said below it.
function action() {
  const s = sale.snapshot.sale, wait = buying.from - Date.now(), unpaid = due();
  if (judged(s)) return { hint: 'A load test is judging this sale: watch it. Nothing can be bought here.' };
  if (!demo && !tokens.buyer) return { hint: 'To order, sign in under “Your orders”.' };
  if (buying.busy) return { label: buying.busy };
  if (wait > 0) return { label: `Wait ${Math.ceil(wait / 1000)} s` };
  if (unpaid) return { label: `Pay ${money(unpaid.amount, unpaid.currency)}`, order: unpaid, run: () => settle(unpaid.id, 'pay'), hint: 'It is yours once it is paid.' };
  const label = { scheduled: 'Not open yet', sold_out: 'Sold out', closed: 'Closed' }[sale.state];
  if (label) return { label, hint: hints[sale.state] };
  if (allowed() < 1) return { label: `Limit reached: ${units(s.per_buyer_limit)}`, hint: 'You have ordered what one buyer may have.' };
  return { label: `Buy ${buying.quantity} · ${money(s.price * buying.quantity, s.currency)}`, run: order, hint: `Then you have ${span(s.payment_window_s)} to pay.` };
}

function showButton() {
  if (!sale.snapshot) return;
  buying.quantity = Math.max(1, Math.min(buying.quantity, allowed()));
  const { label, order: pay, run, hint = '' } = action();
  buying.run = Date.now() < buying.calm ? null : run;
  $('buy').hidden = !label;
  $('order').setAttribute('aria-disabled', String(!buying.run));
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

// timeLeft to pay an order, ms.
const timeLeft = o => Date.parse(o.expires_at) - now();

// saleOf is a sale as the list of sales last said; orders may outlive it.
const saleOf = sku => stream.sales.find(s => s.sku === sku) || {};

const refusals = {
  sold_out: () => sale.snapshot?.sale.available > 0 ? 'Fewer are left than you asked for.'
    : 'Sold out. What is not paid for in time comes back: keep an eye on the number.',
  buyer_limit: s => `You have what one buyer may have: ${units(s.per_buyer_limit)}.`,
  not_open: () => 'A moment too early: it is not open yet.',
  closed: () => 'The sale is over.',
};

// order asks until it knows: an answer that got lost is asked for again under
// the same key, which can't buy twice.
async function order() {
  buying.busy = 'Ordering…';
  showButton();
  const mine = buying.attempt || { key: random(), sku: sale.snapshot.sale.sku, quantity: buying.quantity };
  buying.attempt = mine;
  answer('wait', 'Asking…');
  const until = Date.now() + 60000;
  while (!await ask(mine, until) && Date.now() < until);
  if (buying.attempt) answer('wait', 'Still no answer. Press again: it is the same order, not a second one.');
  look();
  buying.busy = '';
  buying.calm = Date.now() + 700;
  showClock();
}

// ask is true once the outcome is known.
async function ask(mine, until) {
  const { status, body, location, retry } = await call('POST', 'v1/orders', {
    token: tokens.buyer, body: { sku: mine.sku, quantity: mine.quantity }, headers: { 'Idempotency-Key': mine.key },
  });
  const done = (kind, words, told) => { buying.attempt = null; answer(kind, words, told); return true; };
  if (status === 201) return bought(body, done);
  if (status === 202) return follow(location, done, until);
  if (status === 409 && refusals[body.code]) return done('no', refusals[body.code](saleOf(mine.sku)));
  if (status === 429) {
    buying.from = Date.now() + retry * 1000;
    return done('wait', `Too many requests. You may try again in ${retry} s.`);
  }
  if (status === 401) return await refused() ? false : done('no', foreign);
  if (status >= 400 && status < 500) return done('no', body.detail || 'That was refused.');
  answer('wait', status === 0 ? 'No answer came. Asking again under the same key: you can’t buy twice.'
    : `The shop can’t say just now. Asking again in ${retry} s under the same key: you can’t buy twice.`);
  await pause(retry * 1000);
  return false;
}

// keep puts an order where the buyer's list has it, or first.
function keep(o) {
  const there = buying.orders.some(x => x.id === o.id);
  buying.orders = there ? buying.orders.map(x => x.id === o.id ? o : x) : [o, ...buying.orders];
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

// follow an order that is on its way until it is durable, rejected, or lost: then
// the same key tries again.
async function follow(location, done, until) {
  answer('wait', 'Your units are reserved, and the order is being stored. Nothing is promised yet.');
  for (let wait = 500; Date.now() < until;) {
    await pause(wait);
    const { status, body, retry } = await call('GET', location, { token: tokens.buyer });
    if (status === 404 || status === 401) return false; // asking anew finds out
    wait = status === 200 ? 500 : retry * 1000;
    if (status !== 200 || body.status === 'reserved') continue;
    if (body.status === 'rejected') return done('no', refusals[body.reason] ? refusals[body.reason](saleOf(body.sku)) : 'The order was rejected. Nothing was sold.');
    return bought(body, done);
  }
  return false;
}

// look reads the buyer's own orders.
async function look() {
  if (!tokens.buyer) return;
  const mine = ++buying.asked;
  const { status, body } = await call('GET', 'v1/orders?limit=20', { token: tokens.buyer });
  if (status === 401 && !await refused()) say('sign-answer', 'no', foreign);
  if (status !== 200 || mine < buying.shown) return; // a later look has been shown
  buying.shown = mine;
  buying.orders = body.orders;
  if (body.orders.some(o => o.id === buying.told && o.status !== 'pending_payment')) answer('', ''); // it says that there is time to pay
  showOrders();
}

const statuses = { reserved: 'On its way', pending_payment: 'To be paid', paid: 'Paid', cancelled: 'Cancelled', expired: 'Expired', rejected: 'Rejected' };

// showOrders keeps the nodes of orders that are there: a button that has the
// focus keeps it.
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

// showRemaining is what time changes of the orders.
function showRemaining() {
  if (!sale.snapshot) return;
  for (const o of buying.orders) {
    const says = $('order-' + o.id)?.querySelector('.says');
    if (!says || says.dataset.until > Date.now()) continue;
    const left = timeLeft(o);
    text(says, o.status !== 'pending_payment' ? closing(o) : left > 0 ? `${clock(left)} left` : 'Its time is over. Its units go back on sale.');
    if (o.status === 'pending_payment' && left < -500 && !o.late) {
      o.late = true;
      setTimeout(look, 1000);
    }
  }
}

const closing = o => ({
  paid: 'Thank you.', cancelled: 'Its units went back on sale.', expired: 'Not paid in time: its units went back on sale.',
  reserved: 'Being stored. Nothing is promised yet.',
}[o.status] || '');

// settle pays or cancels, and asks again under the same reference where no
// answer came.
async function settle(id, what) {
  const item = $('order-' + id), says = item.querySelector('.says'), focused = item.contains(document.activeElement);
  const note = words => { says.dataset.until = Date.now() + 4000; text(says, words); answer('wait', words); };
  buying.busy = what === 'pay' ? 'Paying…' : 'Cancelling…';
  note(buying.busy);
  showButton();
  buying.refs[id] ||= 'page-' + random();
  for (const until = Date.now() + 30000; Date.now() < until;) {
    const { status, body, retry } = await call('POST', `v1/orders/${id}/${what}`, {
      token: tokens.buyer, body: what === 'pay' ? { payment_ref: buying.refs[id] } : undefined,
    });
    if (status === 200) {
      says.dataset.until = 0;
      keep(body);
      answer('yes', what === 'pay' ? yours(body) : 'Cancelled. It goes back on sale.');
      break;
    }
    if (status === 429 || status === 0 || status >= 500 || body.code === 'in_progress') {
      note(status === 429 ? `Too many requests. Once more in ${retry} s.` : 'No answer yet. Asking again: it counts once.');
      await pause(retry * 1000);
      continue;
    }
    note(body.detail || 'That was refused.');
    $('answer').dataset.kind = 'no';
    break;
  }
  await look();
  buying.busy = '';
  buying.calm = Date.now() + 700;
  showClock();
  if (focused && item.lastElementChild.hidden) item.focus(); // its buttons are gone
}

$('buy').addEventListener('submit', event => { event.preventDefault(); buying.run?.(); });
$('less').addEventListener('click', () => { buying.quantity--; showButton(); });
$('more').addEventListener('click', () => { buying.quantity++; showButton(); });
$('drop').addEventListener('click', async () => {
  await settle(due().id, 'cancel');
  $('order').focus();
});
