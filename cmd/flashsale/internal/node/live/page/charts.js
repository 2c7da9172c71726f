// Charts of the last minutes, by uPlot.
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const charts = [];

// addChart adds a chart to an element. points() returns objects with a time "at", and marks()
// returns objects with "at" and "what". A series is [name, colour, field of a point, width, dash],
// and a limit is [value, colour]. The fields in rare have no line while they are 0.
function addChart(id, series, { points, unit = '', limits = [], marks = () => [], rare = [] }) {
  const chart = { host: $(id), series, points, unit, limits, marks, rare };
  charts.push(chart);
  new ResizeObserver(() => chart.plot?.setSize({ width: chart.host.clientWidth, height: 200 })).observe(chart.host);
}

function drawCharts() {
  for (const chart of charts) {
    const points = chart.points(), drawn = (field, i) => !chart.rare.includes(field) || [i - 1, i, i + 1].some(j => points[j]?.[field]);
    chart.plot ||= makePlot(chart);
    chart.plot.setData([points.map(p => p.at / 1000), ...chart.series.map(([, , field]) => points.map((p, i) => drawn(field, i) ? p[field] : null))]);
    if (!(chart.plot.cursor.left >= 0)) chart.plot.setLegend({ idx: points.length - 1 }); // without a pointer, the legend shows the latest point
  }
}

function makePlot(chart) {
  // Colours are read at each drawing, because the colour scheme may change.
  const grid = { stroke: () => css('--line'), width: 1 }, axis = { stroke: () => css('--soft'), grid, ticks: grid, font: '12px system-ui' };
  return new uPlot({
    width: chart.host.clientWidth, height: 200,
    cursor: { sync: { key: 'all' }, drag: { x: false } },
    scales: {
      x: { range: (plot, from) => { // uPlot's own end of a single point is a day later
        const to = plot.data[0].at(-1) ?? 0;
        return [Math.max(to - $('range').value, Math.min(from, to - 60)), to];
      } },
      y: { range: (plot, from, to) => [0, Math.max(10, to * 1.1)] },
    },
    axes: [{ ...axis, space: 80, size: 32, values: (plot, all) => all.map(at => hour(at * 1000)) }, { ...axis, size: 60, values: (plot, all) => all.map(short) }],
    series: [
      { label: 'At', value: (plot, at) => at ? hour(at * 1000) : '–' },
      ...chart.series.map(([label, colour, , width = 2, dash]) => ({ label, stroke: () => css(colour), width, dash, points: { show: false }, value: (plot, n, i, at) => at == null ? '–' : rate(n ?? 0) + chart.unit })),
    ],
    legend: { markers: {
      width: (plot, i) => plot.series[i].width, dash: (plot, i) => plot.series[i].dash ? 'dashed' : 'solid', stroke: (plot, i) => `var(${chart.series[i - 1][1]})`,
    } },
    hooks: { draw: [plot => drawOver(plot, chart)] },
  }, [[], ...chart.series.map(() => [])], chart.host);
}

// drawOver draws limits and marks over a chart.
function drawOver(plot, { limits, marks }) {
  const { ctx, bbox: { left, top, width, height } } = plot, dot = devicePixelRatio;
  const rule = (colour, x, y, toX, toY) => {
    ctx.strokeStyle = css(colour);
    ctx.stroke(new Path2D(`M${x} ${y}L${toX} ${toY}`));
  };
  ctx.save();
  ctx.lineWidth = dot;
  ctx.setLineDash([4 * dot, 4 * dot]);
  for (const [value, colour] of limits) {
    const y = plot.valToPos(value, 'y', true);
    if (y >= top) rule(colour, left, y, left + width, y);
  }
  ctx.font = `${12 * dot}px system-ui`;
  ctx.fillStyle = css('--ink');
  for (const [i, { at, what }] of marks().entries()) {
    const x = plot.valToPos(at / 1000, 'x', true), near = x < left + width / 2;
    if (x < left) continue;
    rule('--soft', x, top, x, top + height);
    ctx.textAlign = near ? 'left' : 'right';
    ctx.fillText(what.replace('_', ' '), x + (near ? 4 : -4) * dot, top + height / 3 + i % 3 * 14 * dot);
  }
  ctx.restore();
}
