package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A sale is open from opens_at until just before closes_at, by Redis's clock.
func TestWindowToTheMillisecond(t *testing.T) {
	r := servertest.OpenRedis(t, servers.KindEmbedded)
	g, sku := New(connect(t, r.URL), Config{}), newSKU()
	opens := time.UnixMilli(2_000_000_000_000)
	closes := opens.Add(time.Minute)
	install(t, g, sku, 0, truth{Terms: Terms{Total: 100, PerBuyer: 100, OpensAt: opens, ClosesAt: closes}, Available: 100})
	for i, tt := range []struct {
		at   time.Time
		want error
	}{
		{opens.Add(-time.Millisecond), ErrNotOpen},
		{opens.Add(-time.Microsecond), ErrNotOpen},
		{opens, nil},
		{closes.Add(-time.Millisecond), nil},
		{closes.Add(-time.Microsecond), nil},
		{closes, ErrClosed},
	} {
		r.Mini.Server.SetTime(tt.at)
		got, err := g.Reserve(t.Context(), order(sku, fmt.Sprint("o", i), "ann"))
		if !errors.Is(err, tt.want) {
			t.Errorf("at %v: %v, want %v", tt.at, err, tt.want)
		}
		if err == nil && !got.At.Equal(tt.at.Truncate(time.Millisecond)) {
			t.Errorf("at %v: reserved at %v", tt.at, got.At)
		}
	}
}

// The same on the clock as it runs, over both edges, by a node whose own clock
// plays no part.
func TestWindowPasses(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		now := func() time.Time {
			at, err := rdb.Time(t.Context()).Result()
			check.Must(t, err)
			return at
		}
		var before, during, after int
		// A busy machine may miss a short window.
		for width := 150 * time.Millisecond; (before == 0 || during == 0) && width < 10*time.Second; width *= 2 {
			g, sku := New(rdb, Config{}), newSKU()
			opens := now().Truncate(time.Millisecond).Add(width)
			closes := opens.Add(width)
			install(t, g, sku, 0, truth{Terms: Terms{Total: 1e6, PerBuyer: 1e6, OpensAt: opens, ClosesAt: closes}, Available: 1e6})
			before, during, after = 0, 0, 0
			for i := 0; after == 0; i++ {
				from := now()
				got, err := g.Reserve(t.Context(), order(sku, fmt.Sprint("o", i), "ann"))
				to := now()
				ok := true
				switch {
				case errors.Is(err, ErrNotOpen):
					before++
					ok = from.Before(opens)
				case errors.Is(err, ErrClosed):
					after++
					ok = !to.Before(closes)
				case err == nil:
					during++
					ok = !to.Before(opens) && from.Before(closes) && !got.At.Before(opens)
				default:
					t.Fatal(err)
				}
				if !ok {
					t.Errorf("between %v and %v of %v to %v: %v", from, to, opens, closes, err)
				}
			}
		}
		if before == 0 || during == 0 {
			t.Errorf("before %d, during %d, after %d", before, during, after)
		}
	})
}
