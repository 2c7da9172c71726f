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

// looks are the ways in which the page is looked at.
var looks = []struct{ name, scheme string }{{"light", "light"}, {"dark", "dark"}}

// in shows the tab in light or dark colours.
func (b *tab) in(scheme string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// accessible has axe find nothing on the page as it stands.
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
		b.t.Errorf("%s: axe finds %s", what, found)
	}
}

// The five states of the page: axe finds nothing on any, and each fits in its
// width. With FLASHSALE_SHOTS=DIR pictures of all of them are left there.
func TestStatesOfThePage(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	put := func(opens, closes time.Duration) {
		n.put("S", 40, 2, 120, window(opens, closes), func(all map[string]any) { all["name"], all["price"] = "The Last Pair", 12900 }).ok()
	}
	put(90*time.Second, time.Hour)
	if size := len(n.send("GET", "/", "", "").body); size > 100_000 {
		t.Errorf("the page has %d bytes", size)
	}
	tab := visit(t, chromium, n.URL()+"/#S")
	look := func(state string) {
		t.Helper()
		for i, screen := range screens {
			for j, look := range looks {
				tab.on(screen.width, screen.height)
				tab.in(look.scheme)
				tab.until(`(scrollTo(0, 0), true)`)
				what := fmt.Sprintf("%s-%d-%s", state, screen.width, look.name)
				if dir := os.Getenv("FLASHSALE_SHOTS"); dir != "" {
					check.Must(t, os.WriteFile(filepath.Join(dir, what+".png"), tab.drawn(), 0o644))
				}
				if i != j { // the phone in the dark, the desk in the light
					tab.accessible(what)
					wide, err := chromedp.Run(tab.ctx, chromedp.Evaluate[string](`document.documentElement.scrollWidth <= innerWidth ? '' :
						[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.id || e.className || e.nodeName).join(' ')`))
					check.Must(t, err)
					if wide != "" {
						t.Errorf("%s: too wide: %s", what, wide)
					}
				}
			}
		}
	}
	tab.until(button("Not open yet"))
	look("1-scheduled")
	put(0, time.Hour)
	tab.until(button("Buy 1"))
	for i := range 24 {
		n.order("S", fmt.Sprint("buyer-", i)).is(201)
	}
	tab.until(left("16"))
	look("2-open")
	tab.click("#order")
	tab.until(button("Pay €129.00") + ` && document.getElementById('order').getAttribute('aria-disabled') === 'false'`)
	look("3-to-pay")
	for i := range 15 {
		n.order("S", fmt.Sprint("late-", i)).is(201)
	}
	tab.click("#order")
	tab.until(`document.querySelector('#orders li').dataset.status === 'paid' && ` + button("Sold out"))
	look("4-sold-out")
	put(-time.Hour, -time.Second)
	tab.until(button("Closed"))
	look("5-closed")
}
