package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// A summaryGate is a gate that returns only summaries.
type summaryGate struct {
	Gate
	inventory.Summary
}

func (g *summaryGate) Summaries(context.Context, ...string) ([]inventory.Summary, error) {
	return []inventory.Summary{g.Summary}, nil
}

// A node does not take a SKU if it uses an old Redis master, and the latest keeper of the SKU is
// alive and writes to that keeper's master.
func TestNodeLeavesSKUToLatestKeeper(t *testing.T) {
	t.Parallel()
	st, err := store.Open(servertest.Open(t, servers.KindEmbedded).SQL, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	kit.PutSale(t, st, kit.Sale("S", 1, 1))
	gate := &summaryGate{}
	st.Node = "here"
	a := &assigner{
		cfg: Config{Store: st, Gate: gate}, catalog: store.NewCatalog(st, time.Now), health: &redisHealth{gate: gate},
		lastBeat: heartbeat{nodes: []store.Node{{ID: "here"}, {ID: "other"}, {ID: "cut off", Unwritable: ",redis,"}}},
	}
	current := inventory.Summary{Exists: true, Open: true, Epoch: 2}
	old, stale, promoted, missing := current, current, current, inventory.Summary{}
	old.Epoch, stale.Stale = 1, true
	promoted.Epoch, promoted.Stale, promoted.Promoted = 1, true, true
	for what, want := range map[string]struct {
		keeper, mode string
		gate         inventory.Summary
		yields       bool
	}{
		"the gate is of an older epoch":               {"other", orders.ModeGate, old, true},
		"the other node is about to rebuild its gate": {"other", orders.ModeChanging, current, true},
		"the gate is current":                         {"other", orders.ModeGate, current, false},
		"the gate here is to be rebuilt":              {"other", orders.ModeChanging, stale, false},
		"this Redis was promoted":                     {"other", orders.ModeChanging, promoted, false},
		"there is no gate":                            {"other", orders.ModeGate, missing, false},
		"direct mode":                                 {"other", orders.ModeDirect, old, false},
		"the other node has left":                     {"gone", orders.ModeGate, old, false},
		"the other node does not write to Redis":      {"cut off", orders.ModeGate, old, false},
		"this node kept it":                           {"here", orders.ModeGate, old, false},
		"the other node made no progress and vacated": {"", orders.ModeGate, old, false},
	} {
		kit.Exec(t, st.DB, "UPDATE sales SET epoch = 2, fence = 5, mode = ?, keeper = ?", want.mode, want.keeper)
		if want.keeper == "" {
			kit.Exec(t, st.DB, "UPDATE sales SET keeper = 'other'")
			check.Must(t, st.ClearKeeper(t.Context(), "S", 4)) // no effect, because the fence is that of an older keeper
			check.Must(t, st.ClearKeeper(t.Context(), "S", 5))
		}
		check.Must(t, a.catalog.Refresh(t.Context()))
		gate.Summary = want.gate
		if got := a.yields(t.Context(), "S"); got != want.yields {
			t.Errorf("assigner, %s: got that the node yields the SKU: %v, want %v", what, got, want.yields)
		}
	}
}

func TestPlanHandsOverAndTakes(t *testing.T) {
	a := &assigner{
		cfg:    Config{Store: &store.Store{Node: "a"}, Keeper: KeeperConfig{Lease: time.Minute}},
		health: &redisHealth{threshold: contraryProbes}, handedOverAt: map[string]time.Time{}, pool: testPool(),
		lastBeat: heartbeat{time.Now(), []store.Node{{ID: "a"}, {ID: "b"}}},
	}
	a.health.observe([]inventory.Master{{Name: inventory.Standalone}})
	sales := []orders.Sale{{SKU: "mine"}, {SKU: "theirs"}, {SKU: "kept"}}
	for i := range sales { // changes the SKU until the intended node is its preferred node
		for ShouldKeep([]string{"a", "b"}, sales[i].SKU) != []string{"a", "b", "b"}[i] {
			sales[i].SKU += "+"
		}
	}
	kept := &slot{sku: sales[2].SKU}
	a.pool.slots = map[string]*slot{kept.sku: kept, "over": {sku: "over"}}
	for _, moves := range []int{2, 1} { // the second plan drops only the slot whose sale is over
		move, candidates := a.plan(sales)
		if want := []candidate{{sales[0].SKU, 0}, {sales[1].SKU, time.Minute / 20 * 3 / 4}}; len(move) != moves || !slices.Equal(candidates, want) {
			t.Errorf("plan of the node: got %d SKUs to hand over, want %d; got candidates %v, want %v", len(move), moves, candidates, want)
		}
	}
}
