// The last ten minutes of the sale: a chart of the stock and a list of sold units.
const happened = {
  opened: m => `Opened with ${units(m.units)}`, sold_out: () => 'Sold out', restocked: m => `Restocked by ${units(m.units)}`,
  cut: m => `Cut by ${units(m.units)}`, closed: m => `Closed with ${units(m.units)} left`,
};
const flags = { opened: () => 'opened', sold_out: () => 'sold out', restocked: m => '+' + count(m.units), cut: m => '−' + count(m.units), closed: () => 'closed' };

// showStock draws the stock over the last one, two, five or ten minutes, whichever is the
// shortest that shows all changes.
function showStock() {
  const { points, marks, snapshot } = sale, to = points.at(-1).at;
  const moved = points.findIndex((p, i) => i > 0 && p.available !== points[i - 1].available);
  const since = Math.min(marks.length ? marks[0].at : to, moved > 0 ? points[moved].at : to);
  const reach = [1, 2, 5, 10].find(m => since >= to - m * 57000) || 10, from = to - reach * 60000;
  const shown = points.filter((p, i) => p.at >= from || points[i + 1]?.at >= from);
  const top = Math.max(1, snapshot.sale.total, ...shown.map(p => p.available));
  const x = at => Math.max(0, (at - from) / (to - from) * 100), y = n => 100 - n / top * 100;

  const start = x(shown[0].at).toFixed(2);
  const path = `M${start} ${y(shown[0].available).toFixed(2)}` + shown.slice(1).map(p => `H${x(p.at).toFixed(2)}V${y(p.available).toFixed(2)}`).join('');
  const half = Math.round(top / 2), [grid, area, line, lines] = $('plot').querySelectorAll('path');
  grid.setAttribute('d', `M0 0H100M0 ${y(half)}H100M0 100H100`);
  line.setAttribute('d', path);
  area.setAttribute('d', `${path}V100H${start}z`);

  const latest = marks.filter(m => m.at >= from).slice(-5);
  lines.setAttribute('d', latest.map(m => `M${x(m.at).toFixed(2)} 0V100`).join(''));
  $('marks').replaceChildren(...latest.map((m, i) => {
    const flag = make('span', '', flags[m.what](m));
    flag.style[x(m.at) > 70 ? 'right' : 'left'] = (x(m.at) > 70 ? 100 - x(m.at) : x(m.at)) + '%';
    flag.style.top = i * 1.4 + 'rem'; // keeps the labels of close marks apart
    return flag;
  }));
  const scale = $('scale').children, times = $('times').children;
  [top, half, 0].forEach((n, i) => { text(scale[i], short(n)); scale[i].style.bottom = 100 - y(n) + '%'; });
  scale[1].hidden = half === top;
  [from, (from + to) / 2, to].forEach((at, i) => text(times[i], hour(at)));
  $('plot').setAttribute('aria-label', `Units left from ${hour(from)} to ${hour(to)}: ${count(shown[0].available)} at first, ${count(points.at(-1).available)} now`);
}

// showFeed lists the sold units, newest first. It changes the texts of the rows instead of
// moving rows, so that the layout does not shift. It does not show the units left: sold units are
// from the stored orders, and the gate may have sold or released units that are not stored yet.
function showFeed() {
  const { points, marks, snapshot } = sale;
  const rows = marks.map(m => ({ at: m.at, kind: 'mark', words: happened[m.what](m) }));
  let all = 0, recent = 0;
  points.forEach((p, i) => {
    const sold = i > 0 ? p.sold - points[i - 1].sold : 0;
    if (sold === 0) return;
    all += Math.max(0, sold);
    if (p.at > points.at(-1).at - 10000) recent += Math.max(0, sold);
    rows.push({ at: p.at, kind: sold > 0 ? '' : 'back', words: sold > 0 ? units(sold) + ' sold' : units(-sold) + ' came back' });
  });
  rows.sort((a, b) => b.at - a.at).splice(40);
  const list = $('feed');
  while (list.children.length > rows.length) list.lastElementChild.remove();
  rows.forEach((row, i) => {
    const item = list.children[i] || list.appendChild(make('li'));
    if (!item.firstChild) item.append(make('time'), make('span'));
    const [at, words] = item.children;
    at.dateTime = new Date(row.at).toISOString();
    text(at, hour(row.at));
    words.className = row.kind;
    text(words, row.words);
  });
  text($('pace'), recent > 0 ? units(recent) + ' in ten seconds' : all > 0 ? `${count(all)} sold, none in ten seconds` : '');
  const ended = snapshot.sold > 0 ? `${units(snapshot.sold)} sold earlier. ` : '';
  const since = Math.max(sale.began, points.at(-1).at - 600000);
  text($('quiet'), rows.length ? '' : now() < Date.parse(snapshot.sale.opens_at) ? 'Nothing yet. After the opening, this list shows the sold units of each second.' : `${ended}Nothing sold since ${hour(since)}.`);
}
