package shop

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
)

// Every node sweeps and restores the same expired orders: each unit comes back
// once.
func TestManyNodesRestoreOnce(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		var nodes []*shop
		for range 4 {
			nodes = append(nodes, open(t, s, quick))
		}
		const n = 60
		nodes[0].put(t, kit.Sale("S", n, 1))
		bought := allBuy(t, nodes[1], "S", "k", n)
		var ids []string
		for id := range bought {
			ids = append(ids, id)
		}
		kit.Overdue(t, nodes[0].store.DB, ids...)
		check.Eventually(t, "all units are back", func() bool {
			a, err := nodes[0].Audit(t.Context(), "S")
			return err == nil && a.Available == n && a.Restoring == 0
		})
		a := nodes[0].settled(t, "S")
		var expired, restored int64
		for _, p := range nodes {
			expired += p.Keepers().Counters().Expired.Load()
			restored += p.Keepers().Counters().Released.Load()
		}
		if a.Available != n || a.Sold != 0 || expired != n || restored != n {
			t.Errorf("%+v; %d expired, %d units given back", a, expired, restored)
		}
		kit.None(t, kit.BrokenClosing(t, nodes[0].store.DB))
		if again := allBuy(t, nodes[2], "S", "l", n); len(again) != n {
			t.Errorf("%d sold again of %d", len(again), n)
		}
	})
}
