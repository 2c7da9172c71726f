// The sale as everybody sees it. All figures on the page are of one snapshot.
const sale = {
  snapshot: null, // the latest
  ahead: 0,       // the database's clock, less this one's, ms
  began: 0,       // since when there are points, ms
  points: [],     // of the last ten minutes: {at, available, sold}
  marks: [],      // what happened to the sale: {at, what, units}
  state: '',
  trouble: '',    // what is away, and what that means
  heard: 0,       // when the latest snapshot came, by this one's clock
};
const states = { scheduled: 'Opens soon', open: 'On sale', sold_out: 'Sold out', closed: 'Closed' };

// What can be done meanwhile.
const hints = {
  scheduled: 'The button works the moment the sale opens. There is no need to reload.',
  sold_out: 'What is not paid for in time comes back on sale. It shows here at once.',
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

// showHistory takes what the node has seen. What this tab has seen before that
// stays: the node may be another one now.
function showHistory({ began, points, marks }) {
  const first = Date.parse(began);
  const own = list => list.filter(x => x.at < (points.length ? points[0].at : Infinity));
  sale.began = Math.min(sale.began || first, first);
  sale.points = [...own(sale.points), ...points];
  sale.marks = [...own(sale.marks), ...marks];
}

function showSnapshot(snapshot) {
  const s = snapshot.sale, at = Date.parse(snapshot.now);
  sale.snapshot = snapshot;
  sale.heard = Date.now();
  // What came late says less: the clock must not go back.
  sale.ahead = Math.max(sale.ahead, at - Date.now());
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
  hero($('left'), count(s.available));
  text($('of'), `of ${count(s.total)} left`);
  text($('ready'), units(s.total));
  const bar = $('bar');
  bar.firstElementChild.style.transform = `scaleX(${s.total > 0 ? Math.min(1, s.available / s.total) : 0})`;
  bar.setAttribute('aria-valuemax', Math.max(1, s.total));
  bar.setAttribute('aria-valuenow', s.available);
  bar.setAttribute('aria-valuetext', `${count(s.available)} of ${count(s.total)}`);
  showCourse();
  showFeed();
  $('main').dataset.snapshot = snapshot.id;
  $('main').setAttribute('aria-busy', 'false');
  sale.trouble = trouble(snapshot);
  showClock();
}

// hero writes the one large figure. A long one is written smaller.
function hero(node, words) {
  node.classList.toggle('far', words.length > 7);
  text(node, words);
}

// showPicture shows the product's picture. Ours shows where there is none.
function showPicture(url, name) {
  const picture = $('picture');
  if (picture.dataset.url === url) return;
  picture.dataset.url = url;
  picture.hidden = true;
  picture.alt = name;
  if (url) picture.src = url;
}

// trouble says what is away, and what that means for a buyer.
function trouble({ missing, direct, exact }) {
  if (missing.includes('mysql') && !direct) return 'The shop cannot store orders just now. What is reserved waits, and nobody is told yes before it is stored.';
  if (direct) return 'The shop is slower than usual. Nothing is lost.';
  if (missing.length) return 'The shop cannot take orders just now. It will in a moment.';
  return exact ? '' : 'The stock could not be read just now. What is shown is what the orders leave over.';
}

// showNotice says what keeps the page from going on as usual.
function showNotice() {
  const lost = sale.snapshot && Date.now() - sale.heard > 3000;
  const says = Date.now() < limited.until ? limited.says
    : lost ? `No word from the shop. The page keeps asking. What it shows is from ${hour(sale.snapshot.now)}.` : sale.trouble;
  $('notice').hidden = says === '';
  text($('notice'), says);
}

// showClock is what time changes: the countdown, and with it the button.
function showClock() {
  showNotice();
  if (!sale.snapshot) return;
  const s = sale.snapshot.sale, state = standing();
  if (state !== sale.state) {
    const before = sale.state;
    sale.state = state;
    $('state').dataset.state = document.querySelector('.sale').dataset.state = state;
    text($('state'), states[state]);
    if (before) announce(before);
    if ($('answer').dataset.kind === 'no') answer('', ''); // it spoke of the state before
  }
  const opensIn = Date.parse(s.opens_at) - now();
  text($('opens'), 'until it opens, ' + when(s.opens_at));
  hero($('clock'), clock(opensIn));
  text($('closes'), state === 'closed' ? 'closed ' + when(s.closes_at) : 'closes in ' + clock(Date.parse(s.closes_at) - now()));
  if (demo) $('crowd').hidden = !/^demo(-\d+)?$/.test(s.sku) || state === 'closed'; // it comes to the demo's own sale
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

$('picture').addEventListener('load', () => { $('picture').hidden = false; });
