// The sale as everybody sees it.
const sale = {
  snapshot: null, // the latest
  ahead: 0,       // the database's clock, less this one's, ms
  course: [],     // units left, of the last two minutes
  sold: [],       // units, of the last minute
  state: '',
  heard: 0,       // when the latest snapshot came, by this one's clock
};
const states = { scheduled: 'Opens soon', open: 'On sale', sold_out: 'Sold out', closed: 'Closed' };

// What can be done meanwhile.
const hints = {
  scheduled: 'The button works the moment it opens: there is no need to reload.',
  sold_out: 'What is not paid for in time comes back on sale, and shows here at once.',
  closed: 'Nothing more is sold. What was ordered can still be paid for in time.',
};

const now = () => Date.now() + sale.ahead;

// standing is the sale's state by the clock, which does not wait for a snapshot.
function standing() {
  const s = sale.snapshot.sale, at = now();
  if (at >= Date.parse(s.closes_at)) return 'closed';
  if (at < Date.parse(s.opens_at)) return 'scheduled';
  return s.available > 0 ? 'open' : 'sold_out';
}

// another begins to show another sale.
function another() {
  Object.assign(sale, { snapshot: null, ahead: -Infinity, course: [], sold: [], state: '' });
  $('feed').replaceChildren();
  $('left').dataset.value = '';
  $('main').setAttribute('aria-busy', 'true');
}

function showSnapshot(snapshot) {
  const before = sale.snapshot, s = snapshot.sale;
  sale.snapshot = snapshot;
  sale.heard = Date.now();
  // What came late says less: the clock must not go back.
  sale.ahead = Math.max(sale.ahead, Date.parse(snapshot.now) - Date.now());

  text($('name'), s.name);
  $('name').classList.toggle('long', s.name.length > 50);
  document.title = s.name + ' · flashsale';
  const ends = s.reserve_on === 'payment' ? 'units are taken when you pay' : span(s.payment_window_s) + ' to pay';
  text($('terms'), `${money(s.price, s.currency)} · at most ${s.per_buyer_limit} per buyer · ${ends}`);
  tween($('left'), s.available);
  text($('of'), `of ${count(s.total)} left`);
  const bar = $('bar');
  bar.firstElementChild.style.transform = `scaleX(${s.total > 0 ? Math.min(1, s.available / s.total) : 0})`;
  bar.setAttribute('aria-valuemax', Math.max(1, s.total));
  bar.setAttribute('aria-valuenow', s.available);
  bar.setAttribute('aria-valuetext', `${count(s.available)} of ${count(s.total)}`);

  keep(sale.course, s.available, 120);
  const path = line(sale.course, 120, 40, Math.max(1, s.total, ...sale.course));
  $('course').children[1].setAttribute('d', path);
  $('course').children[0].setAttribute('d', sale.course.length > 1 ? `${path}V40H${120 - sale.course.length}z` : '');

  if (before) feed(snapshot.sold - before.sold, snapshot);
  $('main').setAttribute('aria-busy', 'false');
  showTrouble(snapshot);
  showClock();
}

// feed tells what was sold since the last snapshot.
function feed(sold, snapshot) {
  keep(sale.sold, sold, 60);
  $('bars').firstElementChild.setAttribute('d', columns(sale.sold, 60, 20));
  const lately = sale.sold.slice(-10).reduce((sum, n) => sum + Math.max(0, n), 0);
  text($('pace'), lately > 0 ? units(lately) + ' in ten seconds' : 'quiet just now');
  if (sold === 0) return;
  const item = make('li'), at = make('time', '', hour(snapshot.now));
  at.dateTime = snapshot.now;
  item.append(at, sold > 0 ? make('span', '', units(sold) + ' sold') : make('span', 'back', units(-sold) + ' came back'),
    make('span', 'soft', count(snapshot.sale.available) + ' left'));
  $('feed').prepend(item);
  if ($('feed').children.length > 60) $('feed').lastElementChild.remove();
}

// showTrouble says what is away, and what that means.
const stores = { redis: 'Redis', mysql: 'MySQL' };
function showTrouble({ missing, direct, exact }) {
  const away = missing.map(name => stores[name] || name).join(' and ');
  let says = '';
  if (direct && away) says = `${away} does not answer. Orders go straight to MySQL, more slowly; nothing is lost.`;
  else if (direct) says = 'Redis is back. Orders go straight to MySQL until the gate has been rebuilt.';
  else if (missing.includes('mysql')) says = `${away} does not answer. What is reserved waits, and nobody is told yes before it is stored.`;
  else if (away) says = `${away} does not answer. Nothing can be reserved until it is back, or until the nodes sell without it.`;
  else if (!exact) says = 'The stock could not be read just now. What is shown is what the orders leave over.';
  notice(says);
}

function notice(words) {
  $('notice').hidden = words === '';
  text($('notice'), words);
}

// showClock is what time changes: the countdown, and with it the button.
function showClock() {
  if (!sale.snapshot) return;
  const s = sale.snapshot.sale, state = standing();
  if (state !== sale.state) {
    const before = sale.state;
    sale.state = state;
    $('state').dataset.state = state;
    document.querySelector('.sale').dataset.state = state;
    text($('state').firstElementChild, states[state]);
    if (before) announce(before);
  }
  const ends = Date.parse(state === 'scheduled' ? s.opens_at : s.closes_at) - now();
  text($('until'), { scheduled: `opens ${when(s.opens_at)}, in`, closed: 'closed' }[state] || 'closes in');
  text($('clock'), state === 'closed' ? when(s.closes_at) : clock(ends));
  text($('hint'), (demo || tokens.buyer || state === 'closed' ? hints[state] : 'To order here, paste a buyer’s token below.') || '');
  if (Date.now() - sale.heard > 3000) notice(`No word from the shop. The page keeps asking; what it shows is from ${hour(sale.snapshot.now)}.`);
  showButton();
  showRemaining();
}

// announce tells a screen reader of another state: of an opening at once, of any
// other when it has lasted, for the last units may come and go every second.
function announce(before) {
  clearTimeout(announce.soon);
  announce.soon = setTimeout(() => sale.state && text($('spoken'), `${sale.snapshot.sale.name}: ${states[sale.state].toLowerCase()}`),
    before === 'scheduled' ? 0 : 3000);
}
