package app

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// TestPicture makes the picture of the README, which shows a crowd at the demo's sale:
//
//	FLASHSALE_TEST_PICTURE=$PWD/.github/live.png go test -run TestPicture ./cmd/flashsale/internal/node/app
func TestPicture(t *testing.T) {
	path := os.Getenv("FLASHSALE_TEST_PICTURE")
	if path == "" {
		t.Skip("set FLASHSALE_TEST_PICTURE to the file to write")
	}
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo = true })
	tab := visit(t, browser(t), n.URL())
	tab.do(chromedp.EmulateViewport(1280, 900))
	check.Eventually(t, "a crowd comes", func() bool { return n.send("POST", "/demo/crowd", n.token("op", true), "").status == 202 })
	check.Eventually(t, "a third of the units is sold", func() bool {
		a, err := n.service.Audit(t.Context(), demoSKU)
		return err == nil && a.Sold > 330
	})
	picture, err := chromedp.Run(tab.ctx, chromedp.FullScreenshot(100)) // as PNG
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, picture, 0o644))
}
