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
// which takes some minutes:
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
	var frames []image.Image
	shoot := func() {
		frame, err := png.Decode(bytes.NewReader(tab.drawn()))
		check.Must(t, err)
		frames = append(frames, frame)
	}
	tab.until(button("Buy 1"))
	shoot()
	tab.click("#crowd")
	tab.until(hasText("answer", "A crowd is coming") + ` && (scrollTo(0, 0), true)`)
	shoot()
	for left := 885; left > 0; left -= 115 {
		tab.until(fmt.Sprintf(`Number(document.getElementById('left').textContent.replace(',', '')) <= %d`, left))
		shoot()
	}
	tab.until(`document.getElementById('state').textContent === 'Sold out'`)
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
func animated(frames []image.Image) *gif.GIF {
	size, counts := frames[0].Bounds(), map[color.RGBA]int{}
	all := make([]*image.RGBA, len(frames))
	for i, frame := range frames {
		all[i] = image.NewRGBA(size)
		draw.Draw(all[i], size, frame, size.Min, draw.Src)
		for p := range len(all[i].Pix) / 4 {
			counts[pixel(all[i], p)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	palette := color.Palette{color.RGBA{}}
	for _, c := range frequent[:min(len(frequent), 255)] {
		palette = append(palette, c)
	}
	indexes := map[color.RGBA]uint8{}
	for c := range counts {
		indexes[c] = uint8(1 + palette[1:].Index(c))
	}
	g := &gif.GIF{}
	for i := range all {
		frame, delay := image.NewPaletted(size, palette), 80
		for p := range frame.Pix {
			if c := pixel(all[i], p); i == 0 || c != pixel(all[i-1], p) {
				frame.Pix[p] = indexes[c]
			}
		}
		if i < 2 || i == len(all)-1 {
			delay = 250
		}
		g.Image, g.Delay, g.Disposal = append(g.Image, frame), append(g.Delay, delay), append(g.Disposal, gif.DisposalNone)
	}
	return g
}

// pixel returns the pixel with number p of an image.
func pixel(i *image.RGBA, p int) color.RGBA {
	return color.RGBA{i.Pix[4*p], i.Pix[4*p+1], i.Pix[4*p+2], 255}
}
