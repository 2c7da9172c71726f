package app

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// TestPicture makes the animated picture of the README. It shows how a crowd buys the demo's sale,
// which takes some minutes, and then that the units add up on the page of operators:
//
//	FLASHSALE_TEST_PICTURE=$PWD/.github/live.gif go test -run TestPicture ./cmd/flashsale/internal/node/app
func TestPicture(t *testing.T) {
	path := os.Getenv("FLASHSALE_TEST_PICTURE")
	if path == "" {
		t.Skip("set FLASHSALE_TEST_PICTURE to the file to write")
	}
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo = true })
	tab := visit(t, browser(t), n.URL())
	tab.do(chromedp.EmulateViewport(1160, 1010))
	var frames []*image.RGBA
	shoot := func() {
		shot, err := png.Decode(bytes.NewReader(tab.drawn()))
		check.Must(t, err)
		frame := image.NewRGBA(shot.Bounds())
		draw.Draw(frame, frame.Rect, shot, image.Point{}, draw.Src)
		frames = append(frames, frame)
	}
	tab.until(button("Buy 1"))
	shoot()
	tab.click("#crowd")
	tab.until(hasText("answer", "A crowd is coming") + ` && (scrollTo(0, 0), true)`)
	shoot()
	for left := 850; left > 0; left -= 150 {
		tab.until(fmt.Sprintf(`Number(document.getElementById('left').textContent.replace(',', '')) <= %d`, left))
		shoot()
	}
	tab.until(`document.getElementById('state').textContent === 'Sold out'`)
	shoot()
	tab.do(chromedp.Navigate(n.URL() + "/ops#" + demoSKU))
	tab.until(`document.getElementById('law').dataset.state === 'holds' && ` + hasText("law-sum", "total 1,000 = available 0 ") + ` && !document.getElementById('law-sum').textContent.includes('paid 0 ') &&
		[...document.querySelectorAll('#stock .u-value')].some(value => value.textContent === '1,000') && (document.getElementById('one').scrollIntoView(), true)`)
	shoot()
	var out bytes.Buffer
	check.Must(t, gif.EncodeAll(&out, animated(frames)))
	if out.Len() > 300_000 {
		t.Errorf("picture: got %d bytes, want at most 300,000", out.Len())
	}
	check.Must(t, os.WriteFile(path, out.Bytes(), 0o644))
}

// animated returns an endless animation with the 255 most frequent colours of the frames. Pixels
// that are as in the previous frame are transparent, so they take little space.
func animated(frames []*image.RGBA) *gif.GIF {
	counts := map[color.Color]int{}
	for _, frame := range frames {
		for p := range len(frame.Pix) / 4 {
			counts[pixel(frame, p)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) })
	palette := append(color.Palette{color.Transparent}, frequent[:min(len(frequent), 255)]...)
	for c := range counts {
		counts[c] = 1 + palette[1:].Index(c)
	}
	g := &gif.GIF{}
	for i, frame := range frames {
		out := image.NewPaletted(frame.Rect, palette)
		for p := range out.Pix {
			if c := pixel(frame, p); i == 0 || c != pixel(frames[i-1], p) {
				out.Pix[p] = uint8(counts[c])
			}
		}
		g.Image, g.Delay, g.Disposal = append(g.Image, out), append(g.Delay, 55), append(g.Disposal, gif.DisposalNone)
	}
	for _, i := range []int{0, 1, len(frames) - 2, len(frames) - 1} {
		g.Delay[i] = 250
	}
	return g
}

// pixel returns the pixel with number p of an image.
func pixel(i *image.RGBA, p int) color.Color {
	return color.RGBA{i.Pix[4*p], i.Pix[4*p+1], i.Pix[4*p+2], 255}
}
