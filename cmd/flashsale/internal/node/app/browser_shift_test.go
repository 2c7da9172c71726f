package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The widths at which the page is looked at: a phone and a desk.
var screens = []struct{ width, height int64 }{{390, 844}, {1280, 800}}

// on shows the tab on a screen of this size.
func (b *tab) on(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// drawn has the page drawn. A browser in the background draws when it likes, but
// for a picture it must.
func (b *tab) drawn() []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	check.Must(b.t, err)
	return picture
}

// Nothing on the page moves by itself: not while it is loaded, not when the sale
// changes its state, not when an order is made or paid. The sum of all layout
// shifts stays below 0.02.
func TestNothingMoves(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	for _, screen := range screens {
		t.Run(fmt.Sprint(screen.width), func(t *testing.T) {
			n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
			put := func(total int, opens, closes time.Duration) {
				n.put("S", total, 2, 900, window(opens, closes)).ok()
			}
			put(1, time.Hour, 2*time.Hour)
			tab := visit(t, chromium, "about:blank")
			tab.on(screen.width, screen.height)
			tab.do(chromedp.Navigate(n.URL() + "/#S"))
			tab.until(`(window.shifts = [], (window.watcher = new PerformanceObserver(list => shifts.push(...list.getEntries())))
				.observe({ type: 'layout-shift', buffered: true }), true)`)
			var total float64
			still := func(what string) {
				t.Helper()
				tab.drawn()
				sum, err := chromedp.Run(tab.ctx, chromedp.Evaluate[float64](`(shifts.push(...watcher.takeRecords()), shifts.reduce((sum, s) => sum + s.value, 0))`))
				check.Must(t, err)
				of, err := chromedp.Run(tab.ctx, chromedp.Evaluate[string](`shifts.splice(0).flatMap(s => [...s.sources].map(f =>
					(f.node?.id || f.node?.className || f.node?.nodeName || f.node) + ' from ' + f.previousRect.y + ' to ' + f.currentRect.y)).join('; ')`))
				check.Must(t, err)
				if total += sum; sum > 0.002 {
					t.Logf("%s: %.3f: %s", what, sum, of)
				}
			}
			tab.until(button("Not open yet"))
			still("first paint")
			put(1, 0, time.Hour)
			tab.until(button("Buy 1"))
			still("opened")
			tab.click("#order")
			tab.until(`document.querySelector('#orders li')?.dataset.status === 'pending_payment' && document.getElementById('state').textContent === 'Sold out'`)
			still("an order is made, sold out")
			tab.click(`#orders button[aria-label^="Pay"]`)
			tab.until(`document.querySelector('#orders li').dataset.status === 'paid'`)
			still("the order is paid")
			put(5, 0, time.Hour)
			tab.until(button("Buy 1"))
			still("restocked")
			put(5, -time.Hour, -time.Minute)
			tab.until(button("Closed"))
			still("closed")
			if total >= 0.02 {
				t.Errorf("things moved by %.3f", total)
			}
		})
	}
}
