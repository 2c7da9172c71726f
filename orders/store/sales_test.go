package store

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// ifVersion is the precondition that the sale has not changed since it was read.
func ifVersion(read orders.Sale) orders.Precondition {
	return orders.IfMatch(`"` + read.Version() + `"`)
}

// Many operators add units at the same time, each with the version of the sale that it has read, and
// repeat a refused change. No unit is lost.
func TestManyRestocks(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		kit.PutSale(t, store, kit.Sale("S", 10, 1))
		var operators sync.WaitGroup
		for range 8 {
			operators.Go(func() {
				for done := 0; done < 3; {
					sale, err := store.Sale(t.Context(), "S")
					if err == nil {
						unchanged := ifVersion(*sale)
						sale.Total++
						_, err = store.PutSale(t.Context(), *sale, unchanged)
					}
					if err == nil {
						done++
					} else if !errors.Is(err, orders.ErrPrecondition) {
						t.Errorf("restock: got error %v, want ErrPrecondition", err)
						return
					}
				}
			})
		}
		operators.Wait()
		if got, err := store.Sale(t.Context(), "S"); err != nil || got.Total != 34 {
			t.Errorf("sale: got %+v, error %v, want 34 units", got, err)
		}
	})
}

// Changes by operators change the version, and nothing else does.
func TestVersion(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store, ids := stocked(t, sql, 1)
		ctx := t.Context()
		put := func() error { return check.Err(store.PutSale(ctx, kit.Sale("S", 9, 1))) }
		for _, c := range []struct {
			name    string
			do      func() error
			changes bool
		}{
			{"a change", put, true},
			{"another change in the same millisecond", func() error {
				kit.Exec(t, store.DB, "UPDATE sales SET updated_at = ?", kit.ClockOf(t, store.DB).Add(time.Hour))
				return put()
			}, true},
			{"one more change", put, true},
			{"a payment", func() error { return check.Err(store.Pay(ctx, "buyer-0", ids[0], "r")) }, false},
			{"a new keeper", func() error { return check.Err(store.TakeOver(ctx, "S")) }, false},
			{"a rebuild", func() error { return check.Err(store.RequestRebuild(ctx, "S")) }, false},
			{"direct mode", func() error { return check.Err(store.EnterDirect(ctx, "S", 0, "redis", time.Second)) }, false},
			{"the end", func() error { return check.Err(store.EndSale(ctx, "S")) }, true},
			{"the end again", func() error { return check.Err(store.EndSale(ctx, "S")) }, false},
		} {
			before, err := store.Sale(ctx, "S")
			check.Must(t, err)
			check.Must(t, c.do())
			after, err := store.Sale(ctx, "S")
			if check.Must(t, err); (after.Version() != before.Version()) != c.changes {
				t.Errorf("version after %s: got %s before and %s after, want a change: %v", c.name, before.Version(), after.Version(), c.changes)
			}
		}
	})
}

// PutSale and EndSale return the row as it is stored, and keep the columns that operators cannot
// change.
func TestPutSaleReturnsTheRow(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		put := kit.Sale("S", 10, 1)
		put.Description, put.ImageURL = strings.Repeat("日", 499)+"😀", "/s.png"
		same := func(got orders.Sale, err error) {
			t.Helper()
			row, readErr := store.Sale(t.Context(), "S")
			if check.Must(t, errors.Join(err, readErr)); got != *row {
				t.Errorf("changed sale: got %+v, want the stored row %+v", got, *row)
			}
		}
		same(store.PutSale(t.Context(), put))
		kit.Exec(t, store.DB, "UPDATE sales SET sold = 3, fence = 4, epoch = 5")
		put.ReserveOn, put.Description = orders.OnPayment, ""
		same(store.PutSale(t.Context(), put))
		same(store.EndSale(t.Context(), "S"))
		if row, err := store.Sale(t.Context(), "S"); err != nil || row.Sold != 3 || row.Fence != 4 || row.Epoch != 5 || row.Mode != orders.ModeChanging || row.ReserveFrom != 6 || row.Description != "" || row.ImageURL != "/s.png" {
			t.Errorf("row after the end: got %+v, error %v, want 3 sold, fence 4 and epoch 5 kept", row, err)
		}
	})
}

func TestIfMatch(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		for header, want := range map[string]error{
			`"VERSION"`: nil, "*": nil, `"x", "VERSION"`: nil, `"x","VERSION","y"`: nil,
			`"x"`: orders.ErrPrecondition, "": orders.ErrPrecondition, ",": orders.ErrPrecondition, "x": orders.ErrPrecondition,
			"VERSION": orders.ErrPrecondition, `W/"VERSION"`: orders.ErrPrecondition,
		} {
			sale, err := store.PutSale(t.Context(), kit.Sale("S", 10, 1))
			check.Must(t, err)
			condition := orders.IfMatch(strings.ReplaceAll(header, "VERSION", sale.Version()))
			check.Is(t, check.Err(store.PutSale(t.Context(), sale, condition)), want)
			if want != nil { // otherwise PutSale has changed the version
				check.Is(t, check.Err(store.EndSale(t.Context(), "S", condition)), want)
			}
		}
		for _, header := range []string{"*", `"x"`} {
			check.Is(t, check.Err(store.PutSale(t.Context(), kit.Sale("T", 1, 1), orders.IfMatch(header))), orders.ErrPrecondition)
			check.Is(t, check.Err(store.EndSale(t.Context(), "T", orders.IfMatch(header))), orders.ErrPrecondition)
		}
		check.Is(t, check.Err(store.Sale(t.Context(), "T")), orders.ErrNotFound)
		check.Must(t, check.Err(store.PutSale(t.Context(), kit.Sale("T", 1, 1), orders.IfNew)))
		check.Is(t, check.Err(store.PutSale(t.Context(), kit.Sale("T", 2, 1), orders.IfNew)), orders.ErrPrecondition)
		check.Is(t, check.Err(store.EndSale(t.Context(), "T", orders.IfNew)), orders.ErrPrecondition)
	})
}

// EndSale sets the end to the database's time, unless the sale is over.
func TestEndSale(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, sql string) {
		store := openStore(t, sql)
		for name, window := range map[string][2]time.Duration{
			"open": {-time.Hour, time.Hour}, "over": {-2 * time.Hour, -time.Hour}, "scheduled": {time.Hour, 2 * time.Hour},
		} {
			put, now := kit.Sale("S", 10, 1), kit.ClockOf(t, store.DB)
			put.OpensAt, put.ClosesAt = now.Add(window[0]), now.Add(window[1])
			kit.PutSale(t, store, put)
			before := kit.ClockOf(t, store.DB)
			closed, err := store.EndSale(t.Context(), "S")
			check.Must(t, err)
			after := kit.ClockOf(t, store.DB)
			ok := closed.ClosesAt.Equal(put.ClosesAt)
			if name != "over" {
				ok = !closed.ClosesAt.Before(before) && !closed.ClosesAt.After(after)
			}
			if !ok || !closed.OpensAt.Before(closed.ClosesAt) || name != "scheduled" && !closed.OpensAt.Equal(put.OpensAt) {
				t.Errorf("end of the sale, %s: got its window from %v to %v, want the end between %v and %v", name, closed.OpensAt, closed.ClosesAt, before, after)
			}
			check.OK(t, closed.Validate())
		}
		check.Is(t, check.Err(store.EndSale(t.Context(), "T")), orders.ErrNotFound)
	})
}
