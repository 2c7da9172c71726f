package keeper_test

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/keeper"
)

// A scan goes no further than it is asked to, however often the keeper passes.
func TestScanGoesAPageAPass(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 2))
		k := b.Keeper(t, "S")
		check.Must(t, k.Run(t.Context()))
		k.BeginScan()
		for let := range 2 {
			for _, todo := range []keeper.Work{keeper.Drain, keeper.Work(let) * keeper.ScanPage, keeper.Drain} {
				check.Must(t, check.Err(k.Pass(t.Context(), todo)))
			}
			if k.ScanAt() != let {
				t.Errorf("after %d pages let through it is at %d", let, k.ScanAt())
			}
		}
	})
}
