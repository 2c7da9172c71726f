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

// looks lists the screens of the test, a phone and a desktop, with their maximum of layout shifts.
var looks = []struct {
	width, height int64
	scheme        string
	shifts        float64
}{{390, 844, "dark", 0.005}, {1280, 800, "light", 0.02}}

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

// In each state of the page, axe reports no violation, and the page is not wider than the
// screen. Layout shifts stay below a maximum in sum, between states and while the page of operators
// loads. With FLASHSALE_SHOTS=DIR, the test writes screenshots of all states to DIR.
func TestPageStates(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	for _, as := range looks {
		t.Run(fmt.Sprint(as.width), func(t *testing.T) {
			n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
			put := func(total int, opens, closes time.Duration) {
				n.put("S", total, 2, 900, window(opens, closes), func(all map[string]any) { all["name"], all["price"] = "The Last Pair", 12900 }).ok()
			}
			put(3, time.Hour, 2*time.Hour)
			if size := len(n.send("GET", "/", "", "").body); size > 100_000 {
				t.Errorf("page of the shop: got %d bytes, want at most 100,000", size)
			}
			tab := visit(t, chromium, "about:blank", `if (location.search === '?slow') {
				const ask = fetch, come = new Promise(go => { window.come = go; });
				window.fetch = async (path, how) => { if (path.startsWith('v1/live')) await come; return ask(path, how); };
			}`)
			tab.do(chromedp.EmulateViewport(as.width, as.height))
			tab.in(as.scheme)
			tab.do(chromedp.Navigate(n.URL() + "/?slow#S"))
			const watchShifts = `(window.shifts = [], (window.watcher = new PerformanceObserver(list => shifts.push(...list.getEntries())))
				.observe({ type: 'layout-shift', buffered: true }), true)`
			tab.until(watchShifts)
			var moved float64
			shoot := func(state string) {
				t.Helper()
				picture := tab.drawn()
				if dir := os.Getenv("FLASHSALE_SHOTS"); dir != "" {
					check.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", state, as.width, as.scheme)), picture, 0o644))
				}
			}
			look := func(state string) {
				t.Helper()
				shoot(state)
				if sum := eval[float64](tab, `(shifts.push(...watcher.takeRecords()), shifts.reduce((sum, s) => sum + s.value, 0))`); sum > 0 {
					moved += sum
					t.Logf("%s: %.3f: %s", state, sum, eval[string](tab, `shifts.splice(0).flatMap(s => [...s.sources].map(f =>
						(f.node?.id || f.node?.className || f.node?.nodeName || f.node) + ' from ' + f.previousRect.y + ' to ' + f.currentRect.y)).join('; ')`))
				}
				tab.accessible(state)
				if wide := eval[string](tab, `document.documentElement.scrollWidth <= innerWidth ? '' :
					[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.id || e.className || e.nodeName).join(' ')`); wide != "" {
					t.Errorf("page in state %s: got elements wider than the window: %s", state, wide)
				}
			}
			tab.until(`(({ content, opacity, height }) => content !== 'none' && opacity === '1' && parseFloat(height) > 200)(getComputedStyle(document.getElementById('main'), '::before'))`)
			shoot("0-slow")
			tab.until(`(come(), true)`)
			tab.until(button("Not open yet") + ` && getComputedStyle(document.getElementById('main'), '::before').content === 'none'`)
			tab.until(`/^until it opens, \d+ \w+ 20\d\d, \d\d:\d\d (UTC|GMT|[A-Z]{3,4})/.test(document.getElementById('opens').textContent)`)
			look("1-scheduled")
			put(3, 0, time.Hour)
			tab.until(button("Buy 1"))
			n.order("S", "bob").want(201)
			tab.until(left("2"))
			look("2-open")
			tab.until(hasText("link", "Live"))
			if small := eval[string](tab, `[...document.querySelectorAll('footer a, #link span')].filter(e => { const box = e.getBoundingClientRect(); return box.width < 20 || e.tagName === 'A' && box.height < 24; }).map(e => e.textContent).join()`); small != "" {
				t.Errorf("links and state of the connection: got %s too small to read or to touch, want none", small)
			}
			tab.click("#order")
			tab.until(button("Pay €129.00") + ` && document.getElementById('order').getAttribute('aria-disabled') === 'false'`)
			look("3-to-pay")
			if cut := eval[string](tab, `['sku', 'buy'].filter(id => {
				const e = document.getElementById(id), has = e.offsetWidth;
				e.style.width = 'max-content';
				const wants = e.offsetWidth;
				e.style.width = '';
				return wants > has;
			}).join()`); cut != "" {
				t.Errorf("page in state 3-to-pay: got no room for the text of %s, want room for the choice of the sale and for the buttons", cut)
			}
			n.order("S", "late").want(201)
			tab.click(`#orders button[aria-label^="Pay"]`)
			tab.until(`document.querySelector('#orders li').dataset.status === 'paid' && ` + button("Sold out"))
			look("4-sold-out")
			put(5, 0, time.Hour)
			tab.until(button("Buy 1"))
			look("5-restocked")
			put(5, -time.Hour, -time.Second)
			tab.until(button("Closed") + ` && ` + left("3") + ` && ` + hasText("of", "of 5 sold") + ` && document.getElementById('bar').ariaLabel === 'Units sold' && document.getElementById('bar').ariaValueNow === '3'`)
			look("6-closed")
			if moved >= as.shifts {
				t.Errorf("layout shifts of the page: got %.4f, want less than %.3f", moved, as.shifts)
			}
			// The longest notices do not cover the state, nor the connection.
			tab.until(`(() => {
				scrollTo(0, 0);
				for (const [id, words] of [['notice', 'The shop cannot store orders at the moment. Orders wait, and are confirmed when they are stored.'], ['newer', 'Watch Load test: Flash sale, just opened']])
					Object.assign(document.getElementById(id), { textContent: words, hidden: false });
				const over = document.querySelector('.over').getBoundingClientRect();
				window.covered = ['state', 'name', 'link'].filter(id => { const box = document.getElementById(id).getBoundingClientRect(); return box.left < over.right && over.left < box.right && box.top < over.bottom && over.top < box.bottom; }).join();
				return over.height > 30;
			})()`)
			if covered := eval[string](tab, `covered`); covered != "" {
				t.Errorf("notices over the page: they cover %s, want neither the state nor the name", covered)
			}
			moved = 0
			tab.do(chromedp.Navigate(n.URL() + "/ops#S"))
			tab.until(watchShifts)
			tab.until(`document.getElementById('law').dataset.state === 'holds' && document.querySelector('#stock .u-legend')`)
			look("7-operators")
			tab.click("[data-action=create]")
			tab.until(`document.getElementById('ask').open`)
			look("8-new-sale")
			if unmarked := eval[string](tab, `[...document.querySelectorAll('#terms [required]')].filter(field => !field.value && !field.labels[0].textContent.includes('required')).map(field => field.name).join()`); unmarked != "" {
				t.Errorf("form of a new sale: got no mark at the required fields %s, want one at each empty field", unmarked)
			}
			if moved >= as.shifts {
				t.Errorf("layout shifts of the operators' page: got %.4f, want less than %.3f", moved, as.shifts)
			}
			tab.until(`(() => {
				for (const [name, value] of Object.entries({ sku: 'a b', price: 1, total: 1, currency: 'eur', opens_at: '2030-01-01T00:00', closes_at: '2029-01-01T00:00' }))
					document.querySelector('#terms [name=' + name + ']').value = value;
				document.getElementById('ask-yes').click();
				return true;
			})()`)
			tab.until(`document.querySelectorAll('#ask [aria-invalid=true]').length === 3`)
			shoot("9-wrong-terms")
			tab.accessible("9-wrong-terms")
			if as.width == 1280 && eval[bool](tab, `(ask => ask.scrollHeight > ask.clientHeight)(document.getElementById('ask'))`) {
				t.Error("form of a new sale with three faults: it has a scrollbar, want none at 1280 × 800")
			}
			if lines := eval[int](tab, `(cell => { cell.textContent = '123,456 of 1,000,000'; const range = new Range(); range.selectNodeContents(cell); return range.getClientRects().length + (cell.scrollWidth > cell.clientWidth); })(document.querySelector('#sales td:nth-child(3)'))`); lines != 1 {
				t.Errorf("sold units of a large sale: got %d lines, or a line wider than the column, want 1", lines)
			}
		})
	}
}
