package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// hasText is a condition: the text of an element begins with words.
func hasText(id, words string) string {
	return fmt.Sprintf(`document.getElementById(%q).textContent.startsWith(%q)`, id, words)
}

// The page shows the history of a sold-out sale. It offers to watch the sale of a load test,
// but not to buy there.
func TestPageShowsHistory(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 12, 12, 900).ok()
	for i := range 6 {
		n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"S","quantity":2}`, fmt.Sprint("Idempotency-Key: ", i)).want(201)
	}
	loadtest := client.NewOperator(client.New(n.URL(), "T", client.NewHTTP(1, time.Minute)), n.token("op", true))
	check.Must(t, loadtest.Open(t.Context(), client.Sale{Name: "Load test: T", Price: 1999, Currency: "EUR", Total: 5, UnitsPerBuyer: 2, PaymentWindowS: 900}, time.Minute))

	tab := visit(t, chromium, n.URL()+"/#S")
	tab.until(`[...document.querySelectorAll('#feed li')].reduce((sum, row) => sum + Number(/^([0-9]+) units sold/.exec(row.children[1].textContent)?.[1] || 0), 0) === 12`)
	tab.until(`[...document.querySelectorAll('#feed li')].at(-1).textContent.endsWith('Opened with 12 units')`)
	tab.until(`![...document.querySelectorAll('#feed li')].some(row => / left$/.test(row.textContent))`) // sold units and units left are from different stores
	tab.until(`document.getElementById('more').getAttribute('aria-disabled') === 'true' && (document.getElementById('more').click(), document.getElementById('quantity').textContent === '1')`)
	tab.until(`document.querySelector('#plot .line').getAttribute('d').endsWith('V100.00') && /12 at first, 0 now$/.test(document.getElementById('plot').ariaLabel)`)
	tab.until(`[...document.querySelectorAll('#marks span')].map(m => m.textContent).join() === 'opened,sold out'`)
	tab.until(`[...document.querySelectorAll('#scale span')].map(m => m.textContent).join() === '12,6,0'`)

	tab.until(hasText("newer", "Watch Load test: T"))
	tab.click("#newer")
	tab.until(left("5") + ` && document.getElementById('buy').hidden && ` + hasText("hint", "A load test is judging this sale: watch it."))
	tab.until(`document.getElementById('newer').hidden`)
	tab.accessible("a sale that a load test judges")
	check.Must(t, loadtest.End(t.Context()))
	fresh := visit(t, chromium, n.URL()) // without a SKU, the page shows a sale that can be bought
	fresh.until(`document.getElementById('main').ariaBusy === 'false' && !` + hasText("name", "Load test"))
	fresh.until(`window.offersNothingOld ??= document.getElementById('newer').hidden`)
}

// At any moment all figures on the page are from one snapshot, even if many units sell, and
// after a change to another sale.
func TestFiguresOfOneSnapshot(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 1000, 1000, 900).ok()
	n.put("T", 9, 1, 900).ok()
	tab := visit(t, chromium, n.URL()+"/#S")
	tab.until(`document.getElementById('main').ariaBusy === 'false'`)
	tab.until(`(window.told = new Set(), window.wrong = [], setInterval(() => {
		const left = document.getElementById('left').textContent, bar = document.getElementById('bar');
		const plot = document.getElementById('plot').ariaLabel.match(/([0-9,]+) now$/)[1];
		const total = document.getElementById('of').textContent.match(/of ([0-9,]+) left/)[1];
		if (document.getElementById('main').ariaBusy === 'true') return;
		told.add(document.getElementById('main').dataset.snapshot);
		if (left !== plot || left.replace(',', '') !== bar.ariaValueNow || total.replace(',', '') !== bar.ariaValueMax || (total === '9') !== (document.getElementById('sku').value === 'T'))
			wrong.push([left, plot, bar.ariaValueNow, total, document.getElementById('sku').value].join(' '));
	}), true)`)
	i := 0
	enough := repeatedly(t, func() {
		n.orderBy("S", "ann", fmt.Sprint(i))
		i++
	})
	tab.until(`told.size > 20`)
	tab.until(`(location.hash = '#T', true)`)
	tab.until(left("9"))
	enough()
	if wrong := eval[string](tab, `wrong.join('; ')`); wrong != "" {
		t.Errorf("figures on the page: got values of different snapshots: %s", wrong)
	}
}

// A buyer can order and pay with Tab and Enter only. For a screen reader, the name of the button
// to pay is constant.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 3, 1, 900).ok()
	tab := visit(t, chromium, n.URL()+"/#S")
	const free = ` && document.getElementById('order').getAttribute('aria-disabled') === 'false'`
	tab.until(button("Buy 1") + free)
	for !eval[bool](tab, `document.activeElement.id === 'order'`) {
		tab.do(chromedp.KeyEvent(kb.Tab))
	}
	tab.do(chromedp.KeyEvent(kb.Enter))
	tab.until(button("Pay €19.99") + free + ` && document.activeElement.id === 'order'`)
	tree, err := chromedp.Call(tab.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	check.Must(t, err)
	var buttons []string
	for _, node := range tree.Nodes {
		if node.Role != nil && string(node.Role.Value) == `"button"` {
			buttons = append(buttons, string(node.Name.Value))
		}
	}
	if !slices.Contains(buttons, `"Pay \u20ac19.99"`) {
		t.Errorf("accessible names of the buttons: got %s, want Pay €19.99 among them, without the time left", buttons)
	}
	tab.do(chromedp.KeyEvent(kb.Enter))
	tab.until(hasText("answer", "Paid: 1 unit.") + ` && ` + button("Limit reached") + ` && document.activeElement.id === 'order'`)
}

// If the page itself is rate limited, it shows this and the time that it waits.
func TestPageShowsRateLimit(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo, c.LimitIP = true, parseLimit(t, "1/m:1") })
	tab := visit(t, browser(t), n.URL())
	tab.until(`!document.getElementById('notice').hidden && /^Too many requests from your network. The page waits [0-9]+ s/.test(document.getElementById('notice').textContent)`)
}

// The page shows the picture and the description of a product. If the picture does not load,
// it is hidden.
func TestPageShowsProduct(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	product := func(picture string) func(map[string]any) {
		return func(all map[string]any) { all["description"], all["image_url"] = "From the last roll.", picture }
	}
	n.put("S", 3, 1, 900, product("/picture.svg")).ok()
	n.put("T", 3, 1, 900, product("/none.svg")).ok()
	node, err := url.Parse(n.URL())
	check.Must(t, err)
	paths := http.NewServeMux()
	paths.Handle("/", httputil.NewSingleHostReverseProxy(node))
	paths.HandleFunc("/picture.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><rect width="2" height="2"/></svg>`)
	})
	server := httptest.NewServer(paths)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	tab := visit(t, browser(t), server.URL+"/#S")
	tab.until(hasText("description", "From the last roll.") + ` && !document.getElementById('picture').hidden && document.getElementById('picture').alt === 'A thing'`)
	tab.accessible("a sale with a picture")
	tab.until(`(location.hash = '#T', true)`)
	tab.until(`document.getElementById('picture').getAttribute('src') === '/none.svg' && document.getElementById('picture').complete && document.getElementById('picture').hidden`)
}
