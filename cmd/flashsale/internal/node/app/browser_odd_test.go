package app

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Scripts that run before the scripts of a page.
const (
	// unable removes a function that the page needs. The page may then throw exceptions.
	unable = `delete window.TextDecoderStream`
	// blocked blocks the storage, as a browser without cookies does.
	blocked = `Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('blocked', 'SecurityError'); } })`
	// clocks adds offsets to the clock of the computer and to the time since the start of the page.
	clocks = `for (const clock of [Date, performance]) {
		const real = clock.now.bind(clock);
		clock.offset = clock === Date ? -20 * 60000 : 0;
		clock.now = () => real() + clock.offset;
	}`
)

// isLive is a condition: the page receives a stream.
const isLive = `document.getElementById('link').dataset.state === 'live'`

// The page shows amounts with the decimals of ISO 4217, from which the browser deviates for
// some of these currencies. The scale of the chart has room for a billion units.
func TestPricesInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), often("one"))
	n.put("S", 9, 5, 900)
	buyer := visit(t, chromium, n.URL()+"/#S")
	buyer.do(chromedp.EmulateViewport(390, 844))
	n.put("S", 1_000_000_000, 5, 900)
	buyer.until(`document.getElementById('of').textContent === 'of 1,000,000,000 left' &&
		[...document.getElementById('scale').children].every(label => label.getBoundingClientRect().left >= document.getElementById('scale').closest('section').getBoundingClientRect().left)`)
	for currency, want := range map[string]string{"COP": "COP 129.00", "HUF": "HUF 129.00", "IQD": "IQD 12.900", "JPY": "¥12,900", "EUR": "€129.00"} {
		n.put("S", 9, 5, 900, func(all map[string]any) { all["price"], all["currency"] = 12900, currency })
		buyer.until(`document.getElementById('price').textContent.replace('\u00a0', ' ') === '` + want + `'`)
	}
}

// A browser opens six connections to a node for all of its tabs. Eight tabs or windows load, and
// the tab in front is live and can buy. Each tab is a buyer.
func TestEightTabs(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	for _, windows := range []bool{false, true} {
		t.Run(fmt.Sprint("windows=", windows), func(t *testing.T) {
			skus := []string{fmt.Sprint("S-", windows), fmt.Sprint("T-", windows)}
			for _, sku := range skus {
				n.put(sku, 9, 5, 900).ok()
			}
			first := visit(t, chromium, n.URL()+"/#"+skus[0])
			tabs := []*tab{first}
			for i := range 7 {
				tabs = append(tabs, open(t, first.ctx, n.URL()+"/#"+skus[i%2], nil, chromedp.WithNewWindow(windows)))
				tabs[i+1].until(left("9") + ` && ` + isLive)
			}
			buyers := map[string]bool{}
			for _, tab := range tabs {
				tab.until(hasText("who", "as "))
				buyers[eval[string](tab, `document.getElementById('who').textContent`)] = true
			}
			if len(buyers) != len(tabs) {
				t.Errorf("buyers of %d tabs: got %d, want each tab to be another buyer", len(tabs), len(buyers))
			}
			const paused = `document.getElementById('link').textContent === 'Paused: click'`
			if windows {
				first.until(paused)
			}
			n.order(skus[0], "other").want(201)
			if windows {
				first.click("#name")
			} else {
				_, err := chromedp.Call(first.ctx, page.BringToFront, cdp.Empty{})
				check.Must(t, err)
			}
			first.until(left("8") + ` && ` + isLive)
			first.click("#order")
			first.until(hasText("answer", "Yours: 1 unit.") + ` && ` + left("7"))
			if windows {
				tabs[4].until(paused)
				first.do(chromedp.Navigate("about:blank")) // makes room for another window
				tabs[4].until(isLive)
			}
		})
	}
}

// The page shows the time of the database. If the clock of the computer is set, nothing changes. If
// the database's clock is set back, the page follows within ten snapshots.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 9, 5, 900).ok()
	tab := visit(t, browser(t), n.URL()+"/#S", clocks)
	const right = `/^closes in (1:00:00|59:[0-9]{2}|58:[0-9]{2})$/.test(document.getElementById('closes').textContent)`
	// In the next figures, the old and the new clock have been used.
	const next = `(window.since ??= Number(document.getElementById('main').dataset.snapshot), Number(document.getElementById('main').dataset.snapshot) > since + 4)`
	tab.until(right)
	tab.click("#order")
	tab.until(button("Pay €19.99"))
	tab.until(`(new MutationObserver(() => { if (!` + right + `) window.wrong = true; }).observe(document.getElementById('closes'), { childList: true }), Date.offset = 0, true)`)
	tab.until(next)
	if eval[bool](tab, `Boolean(window.wrong)`) {
		t.Error("page after the clock of the computer was set: got another time to the end of the sale, want the same")
	}
	tab.until(right + ` && ` + button("Pay €19.99") + ` && /^1[345]:[0-9]{2} left$/.test(document.querySelector('#orders .says').textContent)`)
	tab.until(`(performance.offset = 20 * 60000, true)`)
	tab.until(right + ` && ` + button("Pay €19.99") + ` && document.getElementById('notice').hidden`)
}

// A buyer can order and pay in a browser that blocks storage, and the page names the consequence.
// In a browser that lacks a function, the pages show that they do not work there.
func TestUnableBrowsers(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 9, 5, 900).ok()
	tab := visit(t, chromium, n.URL()+"/#S", blocked)
	tab.until(`document.getElementById('unstored').textContent.startsWith('Your browser blocks storage.') && !document.getElementById('unstored').hidden`)
	tab.click("#order")
	tab.until(hasText("answer", "Yours: 1 unit."))
	tab.click(`#orders button[aria-label^="Pay"]`)
	tab.until(hasText("answer", "Paid: 1 unit."))
	tab.do(chromedp.Navigate(n.URL() + "/ops#S"))
	tab.until(`document.getElementById('law').dataset.state === 'holds'`)
	for _, path := range []string{"/#S", "/ops#S"} {
		tab := visit(t, chromium, n.URL()+path, unable)
		tab.until(`!document.getElementById('fault').hidden && ` + hasText("fault", "This page does not work in this browser.") + ` && document.getElementById('link').textContent === 'Page failed'`)
	}
}

// If a sale takes units when they are paid, an unpaid order has no units that could go back.
func TestOrdersWithoutUnits(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 9, 5, 900, onPayment).ok()
	tab := visit(t, browser(t), n.URL()+"/#nosuch")
	tab.until(hasText("answer", "There is no sale “nosuch”. This is A thing."))
	n.put("newer", 9, 5, 900, func(all map[string]any) { all["name"] = "Another" }).ok()
	tab.until(`(location.hash = 'gone', true)`) // the page stays at its sale
	tab.until(hasText("answer", "There is no sale “gone”. This is A thing."))
	tab.until(`(location.hash = 'S', true)`)
	tab.until(`document.getElementById('answer').textContent === ''`)
	without := ` && !/(back on sale|reserved)/.test(document.getElementById('main').innerText)`
	tab.until(`(() => { const clock = performance.now.bind(performance), at = clock(); window.run = () => { performance.now = clock; }; performance.now = () => at; return true; })()`)
	tab.click("#order")
	tab.until(hasText("answer", "Noted: 1 unit, taken when you pay.") + without)
	if label := eval[string](tab, `(document.getElementById('drop').click(), document.getElementById('label').textContent)`); label == "Cancelling…" { // the clock stands still
		t.Fatalf("second tap of a double tap on Buy: got %q, want no effect", label)
	}
	tab.until(`(run(), true)`)
	tab.click("#drop")
	tab.until(`document.querySelector('#orders li').dataset.status === 'cancelled' && ` + hasText("answer", "Cancelled.") + without)
	n.put("S", 9, 5, 1, onPayment).ok()
	tab.click("#order")
	tab.until(`document.querySelector('#orders li').dataset.status === 'expired'` + without)
}
