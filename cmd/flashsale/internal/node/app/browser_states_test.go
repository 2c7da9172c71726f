package app

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// axe-core 4.14.1, https://github.com/dequelabs/axe-core, MPL 2.0, unmodified:
// axe.min.js of its npm package, SHA-256
// 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c.
//
//go:embed testdata/axe-4.14.1.min.js.gz
var axePacked []byte

// A screen is a size and a colour scheme, with the maximum of layout shifts.
type screen struct {
	width, height int64
	scheme        string
	shifts        float64
}

// screens are a phone and a desktop.
var screens = []screen{{390, 844, "dark", 0.005}, {1280, 800, "light", 0.02}}

// in sets the colour scheme of the tab, light or dark.
func (b *tab) in(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// accessible fails the test if axe finds a violation on the current page.
func (b *tab) accessible(what string) {
	b.t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(axePacked))
	check.Must(b.t, err)
	axe, err := io.ReadAll(unpacked)
	check.Must(b.t, err)
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(async () => {
		if (!window.axe) { `+string(axe)+` }
		const { violations } = await axe.run();
		return violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join('; ')).join('\n');
	})()`, chromedp.EvalAwaitPromise))
	check.Must(b.t, err)
	if found != "" {
		b.t.Errorf("page in state %s: axe reports accessibility violations: %s", what, found)
	}
}

// drawn returns a screenshot, for which the browser must draw the page. A browser in the
// background otherwise draws at any time.
func (b *tab) drawn() []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	check.Must(b.t, err)
	return picture
}

// eval evaluates a JavaScript expression in the page.
func eval[V any](b *tab, expression string) V {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](expression))
	check.Must(b.t, err)
	return v
}

// A walk visits the states of the pages of a node in a tab.
type walk struct {
	*tab
	n     *node
	as    screen
	moved float64 // sum of the layout shifts
}

const watchShifts = `(window.shifts = [], (window.watcher = new PerformanceObserver(list => shifts.push(...list.getEntries())))
	.observe({ type: 'layout-shift', buffered: true }), true)`

// shoot draws the page. With FLASHSALE_SHOTS=DIR, it writes a screenshot to DIR.
func (w *walk) shoot(state string) {
	w.t.Helper()
	picture := w.drawn()
	if dir := os.Getenv("FLASHSALE_SHOTS"); dir != "" {
		check.Must(w.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", state, w.as.width, w.as.scheme)), picture, 0o644))
	}
}

// look draws the page, adds its layout shifts to w.moved, and fails the test if axe reports a
// violation or if the page is wider than the screen.
func (w *walk) look(state string) {
	w.t.Helper()
	w.shoot(state)
	if sum := eval[float64](w.tab, `(shifts.push(...watcher.takeRecords()), shifts.reduce((sum, s) => sum + s.value, 0))`); sum > 0 {
		w.moved += sum
		w.t.Logf("%s: %.3f: %s", state, sum, eval[string](w.tab, `shifts.splice(0).flatMap(s => [...s.sources].map(f =>
			(f.node?.id || f.node?.className || f.node?.nodeName || f.node) + ' from ' + f.previousRect.y + ' to ' + f.currentRect.y)).join('; ')`))
	}
	w.accessible(state)
	w.none("page in state "+state+": elements wider than the window", `document.documentElement.scrollWidth <= innerWidth ? '' :
		[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.id || e.className || e.nodeName).join(' ')`)
}

// none fails the test unless the expression is an empty string.
func (w *walk) none(what, expression string) {
	w.t.Helper()
	if got := eval[string](w.tab, expression); got != "" {
		w.t.Errorf("%s: got %s, want none", what, got)
	}
}

// still fails the test if the layout shifts since the last call exceed the maximum.
func (w *walk) still(page string) {
	w.t.Helper()
	if w.moved >= w.as.shifts {
		w.t.Errorf("layout shifts of the %s' page: got %.4f, want less than %.3f", page, w.moved, w.as.shifts)
	}
	w.moved = 0
}

// put creates or changes the sale. It opens and closes at these times from now.
func (w *walk) put(total int, opens, closes time.Duration) {
	w.t.Helper()
	w.n.put("S", total, 2, 900, window(opens, closes), func(all map[string]any) { all["name"], all["price"] = "The Last Pair", 12900 }).ok()
}

// In each state of the page, axe reports no violation, and the page is not wider than the
// screen. The sum of the layout shifts stays below the maximum of the screen.
func TestPageStates(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	for _, as := range screens {
		t.Run(fmt.Sprint(as.width), func(t *testing.T) {
			n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
			if size := len(n.send("GET", "/", "", "").body); size > 100_000 {
				t.Errorf("page of the shop: got %d bytes, want at most 100,000", size)
			}
			w := &walk{n: n, as: as, tab: visit(t, chromium, "about:blank", `if (location.search === '?slow') {
				const ask = fetch, come = new Promise(go => { window.come = go; });
				window.fetch = async (path, how) => { if (path.startsWith('v1/live')) await come; return ask(path, how); };
			}`)}
			w.put(3, time.Hour, 2*time.Hour)
			w.do(chromedp.EmulateViewport(as.width, as.height))
			w.in(as.scheme)
			w.shop()
			w.still("buyers")
			w.notices()
			w.operators()
		})
	}
}

// shop visits the states of the buyers' page.
func (w *walk) shop() {
	w.do(chromedp.Navigate(w.n.URL() + "/?slow#S"))
	w.until(watchShifts)
	w.until(`(({ content, opacity, height }) => content !== 'none' && opacity === '1' && parseFloat(height) > 200)(getComputedStyle(document.getElementById('main'), '::before'))`)
	w.shoot("0-slow")
	w.until(`(come(), true)`)
	w.until(button("Not open yet") + ` && getComputedStyle(document.getElementById('main'), '::before').content === 'none'`)
	w.until(`/^until it opens, \d+ \w+ 20\d\d, \d\d:\d\d (UTC|GMT|[A-Z]{3,4})/.test(document.getElementById('opens').textContent)`)
	w.look("1-scheduled")
	w.put(3, 0, time.Hour)
	w.until(button("Buy 1"))
	w.n.order("S", "bob").want(201)
	w.until(left("2"))
	w.look("2-open")
	w.until(hasText("link", "Live"))
	w.none("links and state of the connection: too small to read or to touch", `[...document.querySelectorAll('footer a, #link span')].filter(e => { const box = e.getBoundingClientRect(); return box.width < 20 || e.tagName === 'A' && box.height < 24; }).map(e => e.textContent).join()`)
	w.click("#order")
	w.until(button("Pay €129.00") + ` && document.getElementById('order').getAttribute('aria-disabled') === 'false'`)
	w.look("3-to-pay")
	w.none("page in state 3-to-pay: elements without room for their text", `['sku', 'buy'].filter(id => {
		const e = document.getElementById(id), has = e.offsetWidth;
		e.style.width = 'max-content';
		const wants = e.offsetWidth;
		e.style.width = '';
		return wants > has;
	}).join()`)
	w.n.order("S", "late").want(201)
	w.click(`#orders button[aria-label^="Pay"]`)
	w.until(`document.querySelector('#orders li').dataset.status === 'paid' && ` + button("Sold out"))
	w.look("4-sold-out")
	w.put(5, 0, time.Hour)
	w.until(button("Buy 1"))
	w.look("5-restocked")
	w.put(5, -time.Hour, -time.Second)
	w.until(button("Closed") + ` && ` + left("3") + ` && ` + hasText("of", "of 5 sold") + ` && document.getElementById('bar').ariaLabel === 'Units sold' && document.getElementById('bar').ariaValueNow === '3'`)
	w.look("6-closed")
}

// notices checks that the longest notices cover neither the state nor the connection.
func (w *walk) notices() {
	w.until(`(() => {
		scrollTo(0, 0);
		for (const [id, words] of [['notice', 'The shop cannot store orders at the moment. Orders wait, and are confirmed when they are stored.'], ['newer', 'Watch Load test: Flash sale, just opened']])
			Object.assign(document.getElementById(id), { textContent: words, hidden: false });
		const over = document.querySelector('.over').getBoundingClientRect();
		window.covered = ['state', 'name', 'link'].filter(id => { const box = document.getElementById(id).getBoundingClientRect(); return box.left < over.right && over.left < box.right && box.top < over.bottom && over.top < box.bottom; }).join();
		return over.height > 30;
	})()`)
	w.none("notices over the page: covered elements", `covered`)
}

// operators visits the operators' page and its form of a new sale.
func (w *walk) operators() {
	w.do(chromedp.Navigate(w.n.URL() + "/ops#S"))
	w.until(watchShifts)
	w.until(`document.getElementById('law').dataset.state === 'holds' && document.querySelector('#stock .u-legend')`)
	w.look("7-operators")
	w.click("[data-action=create]")
	w.until(`document.getElementById('ask').open`)
	w.look("8-new-sale")
	w.none("form of a new sale: required fields without a mark", `[...document.querySelectorAll('#terms [required]')].filter(field => !field.value && !field.labels[0].textContent.includes('required')).map(field => field.name).join()`)
	w.still("operators")
	w.until(`(() => {
		for (const [name, value] of Object.entries({ sku: 'a b', price: 1, total: 1, currency: 'eur', opens_at: '2030-01-01T00:00', closes_at: '2029-01-01T00:00' }))
			document.querySelector('#terms [name=' + name + ']').value = value;
		document.getElementById('ask-yes').click();
		return true;
	})()`)
	w.until(`document.querySelectorAll('#ask [aria-invalid=true]').length === 3`)
	w.shoot("9-wrong-terms")
	w.accessible("9-wrong-terms")
	w.none("form of a new sale with three faults: scrollbar", `(ask => innerWidth === 1280 && ask.scrollHeight > ask.clientHeight ? 'a scrollbar' : '')(document.getElementById('ask'))`)
	w.none("sold units of a large sale: cell with more than one line", `(cell => {
		cell.textContent = '123,456 of 1,000,000';
		const range = new Range();
		range.selectNodeContents(cell);
		return range.getClientRects().length === 1 && cell.scrollWidth <= cell.clientWidth ? '' : 'a cell';
	})(document.querySelector('#sales td:nth-child(3)'))`)
}
