package controller

import (
	"errors"
	"strings"
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

// ownerOf returns the owner of a node of the database sql, which leads.
func ownerOf(t *testing.T, s *servers.Stores, sql string) *owner {
	t.Helper()
	st, err := store.Open(sql, store.Config{Node: "n"})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	cfg := Config{Store: st, Redis: servertest.Connect(t, s.Mini.Addr), Keeper: KeeperConfig{Lease: 10 * time.Second}, Log: check.Log(t)}
	return newOwner(cfg, store.NewCatalog(st, time.Now), func() bool { return true })
}

// A node whose database is at another place owns Redis once it has seen that the owner's next proofs
// are in its database. It does not own Redis while the owner's nodes are stopped, because its
// database may be a copy.
func TestMovedAndCopiedDatabases(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	production := ownerOf(t, s, s.SQL)
	copied := ownerOf(t, s, servertest.OpenSQL(t, servers.KindEmbedded))
	moved := ownerOf(t, s, strings.Replace(s.SQL, "/", "//", 1)) // the same file under another name
	check.Must(t, production.renew(t.Context()))
	var row store.Node
	check.Must(t, production.cfg.Store.DB.Take(&row, "id = ?", store.OwnerRow).Error)
	check.Must(t, copied.cfg.Store.DB.Create(&row).Error)
	for range 20 {
		check.Is(t, copied.renew(t.Context()), ErrOtherOwner)
		check.Is(t, moved.renew(t.Context()), ErrOtherOwner)
	}
	if copied.owns.Load() || !copied.foreign.Load() {
		t.Error("copy of a stopped database: got that it owns Redis, want that another database does")
	}
	check.Eventually(t, "the moved database owns Redis, and the copy is refused", func() bool {
		check.Must(t, production.renew(t.Context()))
		moving, copying := moved.renew(t.Context()), copied.renew(t.Context())
		if copying == nil {
			t.Fatal("copy of a running database: got that it owns Redis, want ErrShared")
		}
		return moving == nil && errors.Is(copying, ErrShared)
	})
	check.Must(t, production.renew(t.Context()))
	if production.rival() == "" || production.catalog.DoubtsGates() {
		t.Errorf("production: got the rival %q, doubt %v, want a rival and no doubt", production.rival(), production.catalog.DoubtsGates())
	}
}

// If two databases have both owned Redis, all nodes of both doubt the gates, also a node that finds only
// values of their own database.
func TestAllNodesDoubt(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	a1, a2 := ownerOf(t, s, s.SQL), ownerOf(t, s, s.SQL)
	b := ownerOf(t, s, servertest.OpenSQL(t, servers.KindEmbedded))
	check.Must(t, a1.renew(t.Context()))
	check.Must(t, a2.renew(t.Context()))
	check.Must(t, a1.cfg.Redis.FlushAll(t.Context()).Err())
	for range 3 {
		for _, o := range []*owner{b, a1, a2} {
			check.Must(t, o.renew(t.Context()))
		}
	}
	for name, o := range map[string]*owner{"a1": a1, "a2": a2, "b": b} {
		if !o.catalog.DoubtsGates() {
			t.Errorf("node %s: got that it trusts the gates, want doubt", name)
		}
	}
	if a1.rival() == "" || b.rival() == "" {
		t.Errorf("rivals: got %q and %q, want each to name the other", a1.rival(), b.rival())
	}
}
