package store

import (
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// onFakeClock runs test on each kind of database, in a bubble with a fake clock. The clock
// does not advance while a database call is in progress.
func onFakeClock(t *testing.T, test func(t *testing.T, dsn string)) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		synctest.Test(t, func(t *testing.T) { test(t, dsn) })
	})
}

// announced reports whether the catalog knows an announcement or allows the switch early.
func announced(c *Catalog, sku string, epoch int64) bool {
	wait, known := c.UntilSwitch(sku, epoch)
	return known || wait != CatalogLease
}

// A copy of the sales vouches for the gate that it names, until another epoch is announced
// or the copy is too old. The epoch ends no earlier.
func TestCatalogVouches(t *testing.T) {
	onFakeClock(t, func(t *testing.T, dsn string) {
		ctx, st := t.Context(), openStore(t, dsn)
		kit.PutSale(t, st, kit.Sale("S", 1, 1))
		kit.PutSale(t, st, kit.Sale("T", 1, 1))
		kit.Exec(t, st.DB, "UPDATE sales SET epoch = 7")
		catalog := NewCatalog(st, time.Now)
		if catalog.Vouches("S", 7) || catalog.IsFresh() || announced(catalog, "S", 7) {
			t.Error("empty catalog: it is fresh or vouches for a gate, want neither")
		}
		renewed := func(want bool, what string) {
			t.Helper()
			check.Must(t, catalog.Renew(ctx))
			if got := catalog.Vouches("S", 7); got != want {
				t.Errorf("catalog, %s: got Vouches %v, want %v", what, got, want)
			}
		}
		renewed(true, "a fresh copy")
		if catalog.Vouches("S", 6) || catalog.Vouches("S", 8) || catalog.Vouches("U", 7) {
			t.Error("copy of the sales: it vouches for a gate that it does not name, want no")
		}
		kit.Exec(t, st.DB, "UPDATE sales SET reserve_on = 'payment' WHERE sku = 'T'")
		check.Must(t, catalog.Refresh(ctx))
		if catalog.Vouches("T", 7) {
			t.Error("copy of the sales: it vouches for a gate that does not know orders without units, want no")
		}
		for age, want := range []bool{true, false} {
			if time.Sleep(CatalogLease - 1); catalog.Vouches("S", 7) != want {
				t.Errorf("catalog just before %d leases have passed: got Vouches %v, want %v", age+1, !want, want)
			}
		}
		check.Must(t, st.Announce(ctx, "S", 6)) // no effect, because the epoch is another one
		if sale, err := st.Sale(ctx, "S"); err != nil || sale.Mode != orders.ModeGate {
			t.Errorf("after the announcement of another epoch: got %+v, error %v, want ModeGate", sale, err)
		}
		check.Must(t, st.Announce(ctx, "S", 7))
		renewed(false, "announced")
		since, _ := catalog.copy.Load().announcedAt("S", 7)
		if announced(catalog, "T", 7) || announced(catalog, "S", 6) {
			t.Error("UntilSwitch of an epoch that was not announced: got it announced or a shorter wait, want a full lease")
		}
		for wait := range 2 { // at the start of a lease, and 1 ns before its end
			want := CatalogLease - time.Duration(wait)*(CatalogLease-1)
			if got, known := catalog.UntilSwitch("S", 7); got != want || !known {
				t.Errorf("UntilSwitch: got %v, announced %v, want %v and true", got, known, want)
			}
			time.Sleep(CatalogLease - 1)
			check.Must(t, catalog.Renew(ctx))
		}
		if wait, _ := catalog.UntilSwitch("S", 7); wait != 0 {
			t.Error("UntilSwitch of the epoch after a lease: got a wait, want 0")
		}
		kit.Exec(t, st.DB, "UPDATE sales SET epoch = 8 WHERE sku = 'S'") // the next epoch is announced, too
		renewed(false, "announced again")
		if got, known := catalog.copy.Load().announcedAt("S", 8); !known || !got.After(since) {
			t.Errorf("epoch 8: got it announced at %v, want after the announcement of epoch 7 at %v", got, since)
		}
		for _, change := range []string{"UPDATE sales SET mode = 'direct' WHERE sku = 'T'", "DELETE FROM sales WHERE sku = 'T'"} {
			check.Must(t, catalog.Refresh(ctx))
			kit.Exec(t, st.DB, change)
			same, err := sameModes(st.DB.WithContext(ctx), catalog.copy.Load().bySKU)
			if check.Must(t, err); same {
				t.Errorf("sameModes after %s: got true, want false", change)
			}
		}
	})
}
