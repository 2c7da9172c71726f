package bare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
)

// Drifts contains functions that make the gate of the sale S differ from the database. A
// function returns false if it finds nothing to change.
var Drifts = map[string]func(t testing.TB, b *Bare) bool{
	"units vanish":           func(t testing.TB, b *Bare) bool { return change(t, b, "", "available", -2) },
	"units appear":           func(t testing.TB, b *Bare) bool { return change(t, b, "", "available", 2) },
	"queue miscounted":       func(t testing.TB, b *Bare) bool { return change(t, b, "", "queued", 7) },
	"buyer's count too high": func(t testing.TB, b *Bare) bool { return change(t, b, ":buyers", someOf(t, b, ":buyers"), 1) },
	"buyer's count too low":  func(t testing.TB, b *Bare) bool { return change(t, b, ":buyers", someOf(t, b, ":buyers"), -1) },
	"unknown buyer counted":  func(t testing.TB, b *Bare) bool { return change(t, b, ":buyers", "nobody", 3) },
	"hold vanishes": func(t testing.TB, b *Bare) bool {
		id := someOf(t, b, ":holds")
		return id != "" && b.Rdb.HDel(t.Context(), "sale:{S}:holds", id).Val() == 1
	},
	"hold appears": func(t testing.TB, b *Bare) bool {
		id := uuid.Must(uuid.NewV7()).String()
		return b.Rdb.HSet(t.Context(), "sale:{S}:holds", id, "2 1700000000000 ghost").Val() == 1
	},
	"queue entry dropped": func(t testing.TB, b *Bare) bool {
		entries := b.Rdb.XRangeN(t.Context(), "sale:{S}:queue", "-", "+", 1).Val()
		return len(entries) > 0 && b.Rdb.XDel(t.Context(), "sale:{S}:queue", entries[0].ID).Val() == 1
	},
	"drop lost": func(t testing.TB, b *Bare) bool {
		for id, o := range kit.RowsOf(t, b.Store.DB) {
			if o.Status == orders.Paid && o.RestoredAt != nil {
				return b.Rdb.HSet(t.Context(), "sale:{S}:holds", id, fmt.Sprintf("%d 1700000000000 %s", o.Quantity, o.Buyer)).Val() == 1
			}
		}
		return false
	},
	"release lost": func(t testing.TB, b *Bare) bool { return loseRelease(t, b) > 0 },
	"reserve and release lost": func(t testing.TB, b *Bare) bool {
		units := loseRelease(t, b)
		if units == 0 {
			return false
		}
		if !loseReserve(t, b, units) { // keep the sums as they are
			change(t, b, "", "available", units)
		}
		return true
	},
}

func change(t testing.TB, b *Bare, key, field string, by int64) bool {
	t.Helper()
	if field == "" {
		return false
	}
	check.Must(t, b.Rdb.HIncrBy(t.Context(), "sale:{S}"+key, field, by).Err())
	return true
}

// someOf returns a field of a hash of the sale S, or "".
func someOf(t testing.TB, b *Bare, key string) string {
	t.Helper()
	fields, err := b.Rdb.HKeys(t.Context(), "sale:{S}"+key).Result()
	check.Must(t, err)
	slices.Sort(fields) // the buyers have a marker, "", which sorts first
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}

// loseRelease undoes the release of an order at the gate, as a failover of Redis does, and
// returns the order's units.
func loseRelease(t testing.TB, b *Bare) int64 {
	t.Helper()
	for id, o := range kit.RowsOf(t, b.Store.DB) {
		held := b.Rdb.HExists(t.Context(), "sale:{S}:holds", id).Val()
		if o.Status.Closed() && o.RestoredAt != nil && !held {
			b.Rdb.HSet(t.Context(), "sale:{S}:holds", id, fmt.Sprintf("%d %d %s", o.Quantity, o.CreatedAt.UnixMilli(), o.Buyer))
			change(t, b, "", "available", -o.Quantity)
			change(t, b, ":buyers", o.Buyer, o.Quantity)
			return o.Quantity
		}
	}
	return 0
}

// loseReserve removes the hold of a pending order with that number of units, and makes the units
// available again.
func loseReserve(t testing.TB, b *Bare, units int64) bool {
	t.Helper()
	for id, o := range kit.RowsOf(t, b.Store.DB) {
		if o.Status == orders.PendingPayment && o.Quantity == units && b.Rdb.HDel(t.Context(), "sale:{S}:holds", id).Val() == 1 {
			change(t, b, "", "available", units)
			change(t, b, ":buyers", o.Buyer, -units)
			return true
		}
	}
	return false
}

// Inconsistencies describes each difference between the gate and the database of the sale S. No
// orders may be in progress.
func (b *Bare) Inconsistencies(t testing.TB) (wrong []string) {
	t.Helper()
	a := b.Audit(t)
	if !a.Balanced || a.Queued != 0 || a.Restoring != 0 || a.Available != a.Total-a.Sold {
		wrong = append(wrong, fmt.Sprintf("audit %+v", a))
	}
	holds, buyers := b.Rdb.HGetAll(t.Context(), "sale:{S}:holds").Val(), b.Rdb.HGetAll(t.Context(), "sale:{S}:buyers").Val()
	units := map[string]int64{}
	pending := 0
	for id, o := range kit.RowsOf(t, b.Store.DB) {
		if o.Status.CountsAsSold() {
			units[o.Buyer] += o.Quantity
		}
		if o.Status == orders.PendingPayment {
			pending++
			if holds[id] == "" {
				wrong = append(wrong, "pending order "+id+" has no hold")
			}
		}
	}
	if len(holds) != pending {
		wrong = append(wrong, fmt.Sprintf("%d holds for %d pending orders", len(holds), pending))
	}
	for buyer, n := range buyers {
		if fmt.Sprint(units[buyer]) != n {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, and %s at the gate", buyer, units[buyer], n))
		}
		delete(units, buyer)
	}
	for buyer, n := range units {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s has %d units, and none at the gate", buyer, n))
		}
	}
	if n := b.Rdb.HGet(t.Context(), "sale:{S}", "queued").Val(); n != "0" {
		wrong = append(wrong, "the empty queue has a count of "+n)
	}
	return wrong
}
