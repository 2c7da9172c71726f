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

// A pass compares a page of a scan only if its work includes ContinueScan.
func TestScanComparesOnePagePerPass(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := bare.Open(t, s, kit.Sale("S", 10, 2))
		k := b.Keeper(t, "S")
		check.Must(t, k.Run(t.Context()))
		k.BeginScan()
		for pages := range 2 {
			for _, todo := range []keeper.Work{keeper.DrainQueue, keeper.Work(pages) * keeper.ContinueScan, keeper.DrainQueue} {
				check.Must(t, check.Err(k.Pass(t.Context(), todo)))
			}
			if k.ScanWalk() != pages {
				t.Errorf("scan: got walk %d after %d pages, want %d", k.ScanWalk(), pages, pages)
			}
		}
	})
}
