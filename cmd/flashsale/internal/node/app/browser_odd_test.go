package app

import (
	"testing"

	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

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
