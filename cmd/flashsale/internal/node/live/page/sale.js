// The sale. All figures on the page are from one snapshot.
const sale = {
  snapshot: null, // the latest snapshot
  aheads: [],     // the database's clock minus performance.now() at the latest snapshots, ms
  began: 0,       // start of the points, ms
  points: [],     // {at, available, sold} of the last ten minutes
  marks: [],      // events of the sale: {at, what, units}
  state: '',
  trouble: '',    // message about a missing store
};
const states = { scheduled: 'Opens soon', open: 'On sale', sold_out: 'Sold out', closed: 'Closed' };

const hints = {
  scheduled: 'The button works as soon as the sale opens. There is no need to reload.',
  sold_out: 'If units come back on sale, they show here at once.',
  closed: 'The sale is over. Orders can still be paid in time.',
};

// now returns the time of the database. performance.now() does not change when the clock of the
// computer is set. A delay makes the difference too small, so the largest of the latest ones counts.
const now = () => performance.now() + Math.max(...sale.aheads);

// currentState returns the state of the sale by the clock, without waiting for a snapshot.
function currentState() {
  const s = sale.snapshot.sale, at = now();
  if (at >= Date.parse(s.closes_at)) return 'closed';
  if (at < Date.parse(s.opens_at)) return 'scheduled';
  return s.available > 0 ? 'open' : 'sold_out';
}

// showHistory stores the history of the node and keeps the older points of this tab. After a
// reconnect the node may be another one with a shorter history.
function showHistory({ began, points, marks }) {
  const first = Date.parse(began);
  const older = list => list.filter(x => x.at < (points.length ? points[0].at : Infinity));
  sale.began = Math.min(sale.began || first, first);
  sale.points = [...older(sale.points), ...points];
  sale.marks = [...older(sale.marks), ...marks];
}

function showSnapshot(snapshot) {
  const s = snapshot.sale, at = Date.parse(snapshot.now);
  sale.snapshot = snapshot;
  heard = performance.now();
  sale.aheads = [...sale.aheads, at - heard].slice(-10);
  const recent = x => x.at > at - 600000;
  sale.points = [...sale.points.filter(x => recent(x) && x.at < at), { at, available: s.available, sold: snapshot.sold }];
  sale.marks = withMarks(sale.marks, snapshot.marks).filter(recent);

  text($('name'), s.name);
  $('name').classList.toggle('long', s.name.length > 40);
  document.title = s.name + ' · flashsale';
  text($('price'), money(s.price, s.currency));
  const ends = s.reserve_on === 'payment' ? 'units are taken when you pay' : span(s.payment_window_s) + ' to pay';
  text($('terms'), `at most ${count(s.per_buyer_limit)} per buyer · ${ends}`);
  text($('description'), s.description || '');
  showPicture(s.image_url || '', s.name);
  showUnits();
  text($('ready'), units(s.total));
  showStock();
  showFeed();
  $('main').dataset.snapshot = snapshot.id;
  $('main').setAttribute('aria-busy', 'false');
  if (demo) showCrowd(snapshot, s.sku);
  sale.trouble = trouble(snapshot);
  showClock();
}

// showUnits shows the units that are left, or those that were sold if the sale is over.
function showUnits() {
  const { sale: s, sold } = sale.snapshot, over = currentState() === 'closed';
  const n = over ? sold : s.available, word = over ? 'sold' : 'left', bar = $('bar');
  hero($('left'), count(n));
  text($('of'), `of ${count(s.total)} ${word}`);
  bar.firstElementChild.style.transform = `scaleX(${s.total > 0 ? Math.min(1, n / s.total) : 0})`;
  const said = { label: 'Units ' + word, valuemax: Math.max(1, s.total), valuenow: n, valuetext: `${count(n)} of ${count(s.total)}` };
  for (const [name, value] of Object.entries(said)) bar.setAttribute('aria-' + name, value);
}

// hero shows a large figure. A long one gets a smaller font.
function hero(node, words) {
  node.classList.toggle('far', words.length > 7);
  text(node, words);
}

// showPicture shows the product's picture. Without a picture, the drawing of a box shows.
function showPicture(url, name) {
  const picture = $('picture');
  if (picture.dataset.url === url) return;
  picture.dataset.url = url;
  picture.hidden = true;
  picture.alt = name;
  if (url) picture.src = url;
}

// trouble returns the message for buyers while a store is missing.
function trouble({ missing, direct, exact }) {
  if (missing.includes('mysql') && !direct) return 'The shop cannot store orders at the moment. Orders wait, and are confirmed when they are stored.';
  if (direct) return 'The shop is slower than usual. Nothing is lost.';
  if (missing.length) return 'The shop cannot accept orders at the moment. Please wait.';
  return exact ? '' : 'The number of units left is an estimate at the moment.';
}

// showNotice shows a message while the page is limited, disconnected, or a store is missing.
function showNotice() {
  const says = performance.now() < limited.until ? limited.says
    : sale.snapshot && silent() ? `No connection to the shop. The page keeps trying. It shows the state of ${hour(sale.snapshot.now)}.` : sale.trouble;
  $('notice').hidden = says === '';
  text($('notice'), says);
}

// showClock updates the countdown and the button, which change with time.
function showClock() {
  showNotice();
  if (!sale.snapshot) return;
  const s = sale.snapshot.sale, state = currentState();
  if (state !== sale.state) {
    const before = sale.state;
    sale.state = state;
    $('state').dataset.state = document.querySelector('.sale').dataset.state = state;
    text($('state'), states[state]);
    showUnits();
    if (before) announce(before);
    const old = buying.subject === 'crowd' ? state !== 'open' : $('answer').dataset.kind === 'no';
    if (old) answer('', ''); // it was about the previous state
  }
  const opensIn = Date.parse(s.opens_at) - now();
  text($('opens'), 'until it opens, ' + when(s.opens_at));
  hero($('clock'), clock(opensIn));
  text($('closes'), state === 'closed' ? 'closed ' + when(s.closes_at) : 'closes in ' + clock(Date.parse(s.closes_at) - now()));
  if (demo) $('crowd').hidden = judged(s) || state === 'closed';
  showButton();
  showRemaining();
}

// announce announces a new state to screen readers: an opening at once, any other state after
// three seconds, because the last units may sell and return every second.
function announce(before) {
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => sale.state && text($('spoken'), `${sale.snapshot.sale.name}: ${states[sale.state].toLowerCase()}`),
    before === 'scheduled' ? 0 : 3000);
}

$('picture').addEventListener('load', () => { $('picture').hidden = false; });
