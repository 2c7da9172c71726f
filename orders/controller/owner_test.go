package controller

import (
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// A message is believed only if its fence is that of the sale in this node's database, and if
// its keeper is another live node of this database.
func TestMessageOfThisDatabase(t *testing.T) {
	t.Parallel()
	st, err := store.Open(servertest.Open(t, servers.KindEmbedded).SQL, store.Config{Node: "here"})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	kit.PutSale(t, st, kit.Sale("S", 1, 1))
	kit.Exec(t, st.DB, "UPDATE sales SET fence = 5")
	for what, c := range map[string]struct {
		message
		age   time.Duration // age of this node's last heartbeat
		doubt bool
		want  bool
	}{
		"the keeper of this database":     {message: message{SKU: "S", Fence: 5, Keeper: "other"}, want: true},
		"another fence":                   {message: message{SKU: "S", Fence: 6, Keeper: "other"}},
		"a node without a live heartbeat": {message: message{SKU: "S", Fence: 5, Keeper: "gone"}},
		"a node with this node's name":    {message: message{SKU: "S", Fence: 5, Keeper: "here"}},
		"a sale that does not exist":      {message: message{SKU: "T", Fence: 5, Keeper: "other"}},
		"the live nodes are not known":    {message: message{SKU: "S", Fence: 5, Keeper: "other"}, age: time.Hour},
		"another database may own Redis":  {message: message{SKU: "S", Fence: 5, Keeper: "other"}, doubt: true},
	} {
		a := &assigner{
			cfg: Config{Store: st, Keeper: KeeperConfig{Lease: time.Minute}}, catalog: store.NewCatalog(st, time.Now),
			lastBeat: heartbeat{time.Now().Add(-c.age), []store.Node{{ID: "here"}, {ID: "other"}}},
		}
		check.Must(t, a.catalog.Refresh(t.Context()))
		a.catalog.DoubtGates(c.doubt)
		if got := a.believes(&c.message); got != c.want {
			t.Errorf("message of %s: got that it is believed: %v, want %v", what, got, c.want)
		}
	}
}
