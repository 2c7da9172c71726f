package inventory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A sale is open from opens_at until just before closes_at, by the clock of Redis. The
// clock of the node is not used.
func TestSaleWindowIsExact(t *testing.T) {
	r := servertest.OpenRedis(t, servers.KindEmbedded)
	g, sku := newGate(servertest.Connect(t, r.URL), patient), newSKU()
	opens := time.UnixMilli(2_000_000_000_000)
	closes := opens.Add(time.Minute)
	install(t, g, sku, 0, truth{Terms: Terms{Total: 100, UnitsPerBuyer: 100, OpensAt: opens, ClosesAt: closes}, Available: 100})
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
			t.Errorf("order at %v of the sale's window: got error %v, want %v", tt.at, err, tt.want)
		}
		if err == nil && !got.AcceptedAt.Equal(tt.at.Truncate(time.Millisecond)) {
			t.Errorf("order at %v: got the acceptance time %v, want the same time", tt.at, got.AcceptedAt)
		}
	}
}
