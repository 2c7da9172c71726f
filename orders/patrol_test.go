package orders

import (
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A gate that changes is compared order by order each time, one at rest ten
// times seldomer, and neither more often than that.
func TestSaleAtRestIsWalkedSeldom(t *testing.T) {
	ks := &Keepers{store: &Store{}, cfg: KeeperConfig{ReconcileHoldsEvery: time.Second}.withDefaults(), signal: make(chan struct{}, 1)}
	walks := func(changing bool) (n int) {
		p := &post{}
		ks.posts, ks.due = map[string]*post{"S": p}, nil
		g, now := inventory.Glance{Open: true}, time.Now()
		for range 600 { // a minute
			now = now.Add(100 * time.Millisecond)
			if changing {
				g.Granted++
			}
			ks.reconcile("S", g, now)
			if p.walk.Swap(false) {
				n++
			}
		}
		return n
	}
	if busy := walks(true); busy < 50 || busy > 60 {
		t.Errorf("a busy sale was compared %d times a minute, order by order", busy)
	}
	if rest := walks(false); rest < 5 || rest > 7 {
		t.Errorf("a sale at rest was compared %d times a minute, order by order", rest)
	}
}

// A walk goes no further than the patrol lets it, however often the keeper passes.
func TestWalkGoesAPageARound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		b := openBare(t, s, sale("S", 10, 2))
		k := b.keeper(t, "S")
		if err := k.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.round = &round{at: 1}
		for let := range 2 {
			k.page.Store(let > 0)
			for range 3 {
				if _, err := k.pass(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if k.round.at != 1+let {
				t.Errorf("after %d pages let through it is at %d", let, k.round.at)
			}
		}
	})
}
