package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A tab is a page in its own browser context, with separate storage.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// shared is the Chromium process of all tests that currently run.
var shared struct {
	sync.Mutex
	users int
	ctx   context.Context
	end   func()
}

// browser returns Chromium, which runs until the test ends. If Chromium is not installed,
// the test is skipped, or fails if FLASHSALE_TEST_REAL=require.
func browser(t *testing.T) context.Context {
	t.Helper()
	mode := os.Getenv("FLASHSALE_TEST_REAL")
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	switch {
	case mode == "off":
		t.Skip("FLASHSALE_TEST_REAL=off")
	case path == "" && mode == "require":
		t.Fatal("chromium is not installed")
	case path == "":
		t.Skip("chromium is not installed")
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.users++; shared.users == 1 {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
		for _, flag := range []string{"no-sandbox", "disable-gpu", "disable-quic", "disable-component-update"} {
			options = append(options, chromedp.Flag(flag, true))
		}
		ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
		shared.ctx, _ = chromedp.NewContext(ctx)
		shared.end = end // waits for the process
	}
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.end()
		}
	})
	if err := chromedp.Do(shared.ctx); err != nil {
		t.Fatalf("start the browser %s: got error %v, want none", path, err)
	}
	return shared.ctx
}

// younger lists the functions of Chromium 156 that at least one of Chrome, Edge, Firefox and
// Safari did not have on 26 November 2022: those without an earlier baseline_low_date in
// web-features 3.40.0, https://github.com/web-platform-dx/web-features, Apache 2.0. Functions
// whose use is discouraged are left out.
//
//go:embed testdata/younger.txt
var younger string

// makeOld removes younger functions from a page, which then has the functions of a browser of
// November 2022.
const makeOld = `for (const line of %q.trim().split('\n')) {
	const [path, names] = line.split(': ');
	const owner = path === 'TypedArray.prototype' ? Object.getPrototypeOf(Int8Array.prototype) : path.split('.').reduce((o, name) => o?.[name], window);
	for (const name of owner ? names.split(' ') : []) delete owner[name];
}`

// visit runs the scripts and then opens the page, with the functions of a browser of November 2022. An
// exception in the page fails the test. A failed test prints the console of the page.
func visit(t *testing.T, browser context.Context, url string, scripts ...string) *tab {
	t.Helper()
	ctx, cancel := context.WithDeadline(browser, check.Deadline(t))
	t.Cleanup(cancel)
	return open(t, ctx, url, scripts, chromedp.WithNewBrowserContext())
}

// open opens the page like visit, in a new tab of the browser context of ctx.
func open(t *testing.T, ctx context.Context, url string, scripts []string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, leave := chromedp.NewContext(ctx, options...)
	t.Cleanup(leave)
	console := check.Output(t)
	tab := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // creates the tab, which Listen needs
		t.Fatalf("open a tab in the browser: got error %v, want none", err)
	}
	for _, script := range append([]string{fmt.Sprintf(makeOld, younger)}, scripts...) {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		check.Must(t, err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			if slices.Contains(scripts, unable) {
				return
			}
			t.Errorf("page: got the exception %s %+v, want none", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			for _, arg := range e.Args {
				_, _ = fmt.Fprintf(console, "%s: console %s: %s %s\n", url, e.Type, arg.Value, arg.Description)
			}
		case *log.EventEntryAdded:
			_, _ = fmt.Fprintf(console, "%s: %s: %s %s\n", url, e.Entry.Source, e.Entry.Text, e.Entry.URL)
			if e.Entry.Source == log.EntrySourceSecurity {
				t.Errorf("page: its security policy blocked a request: %s", e.Entry.Text)
			}
		}
	})
	check.Must(t, err)
	tab.do(chromedp.Navigate(url))
	return tab
}

func (b *tab) do(what chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	check.Must(b.t, chromedp.Do(b.ctx, what))
}

// until waits for a condition of the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[chromedp.Void](condition,
		chromedp.WithPollingTimeout(time.Until(check.Deadline(b.t))-time.Second), chromedp.WithPollingInterval(20*time.Millisecond)))
	if err != nil {
		shown, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.href + ' shows:\\n' + document.body.innerText"))
		b.t.Fatalf("page: the condition %s did not become true: error %v\n%s", condition, err, shown)
	}
}

// click waits until an element is visible and uncovered, then clicks it. It does not use
// mouse events, which wait until the browser draws the page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(`(() => {
		const it = document.querySelector(` + strconv.Quote(selector) + `);
		if (!it?.getClientRects().length || it.getAttribute('aria-disabled') === 'true') return false;
		it.scrollIntoView({ block: 'center' });
		const box = it.getBoundingClientRect();
		const there = it.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2));
		if (there) it.click();
		return there;
	})()`)
}

// Two buyers watch a sale open, buy, see each other's orders, find the sale sold out, and
// pay or cancel.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	put := func(total int, opensIn time.Duration) {
		n.put("S", total, 2, 900, window(opensIn, 2*time.Hour)).ok()
	}
	put(3, time.Hour)
	ann, bob := visit(t, chromium, n.URL()+"/#S"), visit(t, chromium, n.URL()+"/#S")

	for _, tab := range []*tab{ann, bob} {
		tab.until(left("3") + ` && /^(1:00:00|59:[0-9]{2})$/.test(document.getElementById('clock').textContent) && ` + button("Not open yet") +
			` && document.getElementById('order').getAttribute('aria-disabled') === 'true'`)
	}
	put(3, 0)
	ann.until(button("Buy 1"))
	bob.until(button("Buy 1"))

	ann.click("#more")
	ann.until(button("Buy 2"))
	ann.click("#order")
	ann.until(`document.getElementById('answer').dataset.kind === 'yes'`)
	bob.until(left("1"))
	bob.click("#order")
	for _, tab := range []*tab{ann, bob} { // the button to pay replaces "Sold out"
		tab.until(left("0") + ` && document.getElementById('state').textContent === 'Sold out' && ` + button("Pay €"))
	}
	ann.do(chromedp.Focus(`#orders button[aria-label^="Pay"]`))
	ann.click(`#orders button[aria-label^="Pay"]`)
	ann.until(`document.querySelector('#orders li').dataset.status === 'paid' && document.getElementById('answer').textContent === 'Paid: 2 units. Thank you.'`)
	ann.until(`document.querySelector('#orders .what').textContent === '2 × A thing · €39.98'`)
	ann.until(`document.activeElement === document.querySelector('#orders li')`) // the focused button has been removed
	bob.click(`#orders button[aria-label^="Cancel"]`)
	ann.until(left("1"))

	put(5, -time.Hour)
	ann.until(left("3"))
	bob.until(left("3") + ` && document.getElementById('closes').textContent.startsWith('closes in 1:')`)

	ann.until(button("Limit reached: 2 units") + ` && document.getElementById('order').getAttribute('aria-disabled') === 'true'`)
	bob.until(`(sessionStorage.setItem('buyer', 'of another server'), true)`)
	bob.click("#order") // as another buyer
	bob.until(`document.getElementById('answer').textContent.startsWith('Yours: 1 unit. ')`)
}

// Without demo mode, a buyer signs in with a token. The page handles lost and late
// responses, expired orders, outages of Redis and of the node, and a new node without the
// sale.
func TestBrowserWithoutDemo(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	s := servertest.Open(t, servers.KindEmbedded)
	n := start(t, s, func(c *Config) {
		often("one")(c)
		c.Lease, c.DirectAfter = time.Second, 500*time.Millisecond
		c.Wait, c.LimitBuyer = time.Nanosecond, parseLimit(t, "1/h:10") // every order is answered 202
	})
	front := newFront(t, n.URL())
	n.put("S", 3, 2, 900)
	ann := visit(t, chromium, front.url+"/#S")
	hidden := func(id string) string { return `document.getElementById('` + id + `').hidden` }

	ann.until(left("3") + ` && ` + hidden("buy") + ` && ` + hasText("hint", "To order, sign in"))
	ann.until(`(document.querySelector('.skip').click(), document.activeElement.id === 'main' && location.hash === '#S')`)
	foreign, err := auth.New(auth.Config{Secret: []byte("another " + secret)})
	check.Must(t, err)
	signIn(ann, "rubbish")
	ann.until(hasText("sign-answer", "That is not a token"))
	token, err := foreign.Sign("ann", false, time.Hour)
	check.Must(t, err)
	signIn(ann, token)
	ann.until(hasText("sign-answer", "That token is not accepted") + ` && ` + hidden("buy"))
	ann.accessible("who has not signed in")

	signIn(ann, n.token("ann", false))
	ann.until(`document.activeElement.id === 'order' && ` + button("Buy 1"))
	front.lose.Store(true)
	ann.click("#order")
	ann.until(hasText("answer", "Yours: 1 unit. ") + ` && ` + left("2"))
	ann.click("#drop")
	ann.until(hasText("answer", "Cancelled.") + ` && ` + left("3") + ` && document.activeElement.id === 'order'`)
	n.put("S", 3, 2, 1) // orders now expire after a second
	ann.click("#order")
	ann.until(`document.querySelectorAll('#orders li').length === 2 && document.querySelector('#orders li').dataset.status === 'expired'`)
	ann.until(left("3") + ` && ` + hasText("answer", "Your order has expired"))
	check.Eventually(t, "ann is rate limited", func() bool {
		return n.send("POST", "/v1/orders", n.token("ann", false), `{"sku":"S","quantity":3}`).status == 429
	})
	ann.click("#order")
	ann.until(hasText("answer", "Too many requests") + ` && ` + button("Wait "))

	s.Mini.Kill()
	ann.until(hasText("notice", "The shop ") + ` && !` + hidden("notice"))
	check.Must(t, s.Mini.Restart(t.Context()))
	ann.until(hidden("notice"))

	check.Must(t, n.stop())
	ann.until(hasText("notice", "No connection to the shop") + ` && document.getElementById('link').dataset.state === 'lost'`)
	n = start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Secret = "another " + secret })
	front.to(t, n.URL())
	ann.until(hasText("name", "Nothing is on sale") + ` && ` + hasText("sign-answer", "That token is not accepted"))
	check.Eventually(t, "the page requests the stream of the missing sale", func() bool { return front.gone.Load() > 0 })
	n.put("S", 7, 2, 900)
	ann.until(left("7") + ` && document.getElementById('link').dataset.state === 'live'`)
}

// left is a condition: the page shows this number of available units.
func left(units string) string {
	return `document.getElementById('left').textContent === '` + units + `'`
}

// button is a condition: the label of the buy button begins with label.
func button(label string) string {
	return `document.getElementById('order').textContent.startsWith('` + label + `')`
}

// A front is a proxy with a constant address for a node that is replaced.
type front struct {
	url    string
	target atomic.Pointer[url.URL]
	lose   atomic.Bool  // lose the next response to an order
	gone   atomic.Int64 // number of streams that were answered 404
}

var errLost = errors.New("lost")

func newFront(t *testing.T, first string) *front {
	t.Helper()
	f := &front{}
	f.to(t, first)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(f.target.Load()) },
		ModifyResponse: func(r *http.Response) error {
			switch path := r.Request.URL.Path; {
			case path == "/v1/live" && r.StatusCode == http.StatusNotFound:
				f.gone.Add(1)
			case path == "/v1/orders" && r.Request.Method == http.MethodPost && f.lose.CompareAndSwap(true, false):
				return errLost
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		server.CloseClientConnections() // connections of open tabs
		server.Close()
	})
	f.url = strings.TrimSuffix(server.URL, "/")
	return f
}

// to replaces the node behind the front.
func (f *front) to(t *testing.T, node string) {
	t.Helper()
	u, err := url.Parse(node)
	check.Must(t, err)
	f.target.Store(u)
}
