package shop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
)

// whole is a sale and a simple model of it, in which random steps are run: orders, replays,
// payments, cancellations, expiries, changes of the total, keepers that crash at a step or wake
// up late, and losses of Redis's data. The model is a list of queued orders and a list of rows.
type whole struct {
	*bare.Bare
	t     *rapid.T
	outer *testing.T
	shop  *Service
	put   orders.Sale

	queued  []inventory.Queued // accepted by the gate and not yet found in the database, in order
	rows    []orders.Order     // rows that the database must have
	refunds map[orders.LatePayment]orders.Reason
	keepers []*bare.Keeper // all keepers of the run, the newest last
	isOpen  bool           // the gate is open, so ErrRebuilding means that units are cooling down
}

// agree compares the database with the model. Orders that a keeper has committed since the last
// call move from queued to rows. kit.Decision must make the same decisions.
func (w *whole) agree(when string) {
	real := w.Bare.Rows(w.outer)
	refunds := map[orders.LatePayment]orders.Reason{}
	list, _, err := w.Store.Claims(w.outer.Context(), 1000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range list {
		refunds[orders.LatePayment{Order: r.OrderID, Ref: r.PaymentRef}] = r.Reason
	}
	w.queued = slices.DeleteFunc(w.queued, func(q inventory.Queued) bool {
		if p, late := orders.LateOf(q); late {
			return w.agreeLate(when, q, p, real[p.Order], refunds[p])
		}
		row, ok := real[q.OrderID]
		if !ok {
			return false
		}
		decision := kit.Decision(&w.put, w.rows, q)
		want := map[string]orders.Status{"sold": orders.PendingPayment, "rejected sold_out": orders.Rejected, "rejected buyer_limit": orders.Rejected}[decision]
		if row.Status != want || row.Status == orders.Rejected && "rejected "+string(row.Reason) != decision {
			w.t.Fatalf("%s: %+v became %s %s, the model wants %s", when, q, row.Status, row.Reason, decision)
		}
		w.rows = append(w.rows, row)
		return true
	})
	if !maps.Equal(refunds, w.refunds) {
		w.t.Fatalf("%s: refunds %v, the model has %v", when, refunds, w.refunds)
	}
	if len(real) != len(w.rows) {
		w.t.Fatalf("%s: %d rows, the model has %d", when, len(real), len(w.rows))
	}
	for i := range w.rows {
		if r := real[w.rows[i].ID]; r.Status != w.rows[i].Status || r.Quantity != w.rows[i].Quantity || r.Buyer != w.rows[i].Buyer {
			w.t.Fatalf("%s: row %+v, the model has %+v", when, r, w.rows[i])
		}
	}
	sale, err := w.Store.Sale(w.outer.Context(), "S")
	if err != nil || sale.Sold != w.sold() || sale.Sold > sale.Total || sale.Total != w.put.Total {
		w.t.Fatalf("%s: sale %+v, the model has sold %d of %d (%v)", when, sale, w.sold(), w.put.Total, err)
	}
}

// agreeLate compares the outcome of a late payment with the model. It returns true once the
// payment has paid its order or has a refund claim. A payment that was superseded by another
// one has no outcome of its own.
func (w *whole) agreeLate(when string, q inventory.Queued, p orders.LatePayment, row orders.Order, refund orders.Reason) bool {
	o := w.row(p.Order)
	paid := row.HoldID != nil && *row.HoldID == q.OrderID && o.Status != orders.Paid
	if _, known := w.refunds[p]; !paid && (known || refund == "") {
		return false
	}
	want := ""
	if units := w.units(o.Buyer); units+o.Quantity > w.put.PerBuyerLimit {
		want = "buyer_limit"
	} else if w.sold()+o.Quantity > w.put.Total {
		want = "sold_out"
	}
	if o.Status != orders.Expired || string(refund) != want || paid != (refund == "") {
		w.t.Fatalf("%s: payment %v of %+v: paid %v, refund %q, the model wants %q", when, p, *o, paid, refund, want)
	}
	if paid {
		o.Status, o.PaymentRef = orders.Paid, &p.Ref
	} else {
		w.refunds[p] = refund
	}
	return true
}

func (w *whole) row(id string) *orders.Order {
	return &w.rows[slices.IndexFunc(w.rows, func(o orders.Order) bool { return o.ID == id })]
}

func (w *whole) units(buyer string) (units int64) {
	for _, o := range w.rows {
		if o.Buyer == buyer && o.Status.Open() {
			units += o.Quantity
		}
	}
	return units
}

func (w *whole) sold() (units int64) {
	for _, o := range w.rows {
		if o.Status.Open() {
			units += o.Quantity
		}
	}
	return units
}

// end settles the sale. It checks that the units add up, that all unsold units can be sold, and
// that a replay of every key returns its order.
func (w *whole) end() {
	w.keep(nil)
	w.isOpen = true
	w.agree("at the end")
	a := w.Audit(w.outer)
	if !a.Balanced || a.Queued != 0 || a.Restoring != 0 || a.Available != w.put.Total-w.sold() {
		w.t.Fatalf("at the end: %+v, the model has sold %d", a, w.sold())
	}
	pending, units := int64(0), map[string]int64{}
	for _, o := range w.rows {
		if o.Status == orders.PendingPayment {
			pending++
		}
		if o.Status.Open() {
			units[o.Buyer] += o.Quantity
		}
		if units[o.Buyer] > w.put.PerBuyerLimit {
			w.t.Fatalf("%s has %d units, want at most %d", o.Buyer, units[o.Buyer], w.put.PerBuyerLimit)
		}
	}
	if view, err := w.Gate.Inspect(w.outer.Context(), "S"); err != nil || view.Holds != pending {
		w.t.Fatalf("%d holds for %d pending orders (%v)", view.Holds, pending, err)
	}
	for i := range a.Available {
		w.order(Placement{Buyer: fmt.Sprint("fresh-", i), Quantity: 1})
	}
	w.keep(nil)
	w.agree("sold out")
	if w.sold() != w.put.Total {
		w.t.Fatalf("%d units cannot be sold", w.put.Total-w.sold())
	}
	for _, o := range w.rows {
		if o.IdempotencyKey == nil {
			continue
		}
		p := Placement{Buyer: o.Buyer, SKU: "S", Quantity: o.Quantity, Key: *o.IdempotencyKey}
		answer, err := w.shop.Place(w.outer.Context(), p)
		if o.Status == orders.Rejected && !errors.Is(err, o.Reason.Err()) || o.Status != orders.Rejected && (err != nil || answer.Order.ID != o.ID) {
			w.t.Fatalf("replay of %+v: %+v, %v, want the same order", o, answer.Order, err)
		}
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	b := bare.Open(t, s, kit.Sale("S", 1, 1))
	rapid.Check(t, func(r *rapid.T) {
		b.Empty(t)
		b.Gate = bare.NewGate(b.Rdb, time.Nanosecond) // has no memory of the last run
		w := &whole{Bare: b, t: r, outer: t, refunds: map[orders.LatePayment]orders.Reason{}, put: kit.Sale("S", rapid.Int64Range(1, 8).Draw(r, "total"), 3)}
		w.shop = New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)})
		kit.Put(t, b.Store, w.put)
		w.keep(nil)
		buyer, key := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe"}), rapid.SampledFrom([]string{"", "", "k", "l", "m"})
		step := rapid.SampledFrom([]string{"queue", "commit", "ack", "release", "confirm", "mark", "terms", "shut", "recount", "install"})
		ends := rapid.SampledFrom([]string{"pay", "cancel", "cancel", "expire", "pay too late"})
		for i := range rapid.IntRange(5, 40).Draw(r, "steps") {
			do := rapid.SampledFrom([]string{
				"order", "order", "order", "order", "order", "close", "close", "late", "late", "keep", "keep", "crash", "fail", "stale", "stale", "total", "rebuild", "flush",
			}).Draw(r, "do")
			switch do {
			case "order":
				w.order(Placement{Buyer: buyer.Draw(r, "buyer"), Quantity: rapid.Int64Range(1, 2).Draw(r, "quantity"), Key: key.Draw(r, "key")})
			case "close":
				if len(w.rows) > 0 {
					w.close(&w.rows[rapid.IntRange(0, len(w.rows)-1).Draw(r, "row")], ends.Draw(r, "how"))
				}
			case "late":
				closed := []*orders.Order{}
				for i := range w.rows {
					if w.rows[i].Status == orders.Expired || w.rows[i].PaymentRef != nil {
						closed = append(closed, &w.rows[i])
					}
				}
				if len(closed) > 0 {
					w.payLate(rapid.SampledFrom(closed).Draw(r, "expired"), rapid.SampledFrom([]string{"p", "q"}).Draw(r, "ref"), rapid.IntRange(0, 3).Draw(r, "patience") > 0)
				}
			case "keep":
				w.keep(nil)
			case "crash", "fail": // the step "stale" may run the keeper again
				at := kit.Fault{Step: step.Draw(r, "step"), After: rapid.Bool().Draw(r, "after")}
				crash, _ := kit.FromThenOn(at)
				fail, _ := kit.Once(at)
				w.keep(map[string]kit.Plan{"crash": crash, "fail": fail}[do])
			case "stale":
				n := rapid.IntRange(0, len(w.keepers)-1).Draw(r, "keeper")
				w.stale(w.keepers[n], n == len(w.keepers)-1)
			case "total":
				changed := w.put
				changed.Total = rapid.Int64Range(0, 10).Draw(r, "total")
				_, err := b.Store.PutSale(t.Context(), changed)
				if below := changed.Total < w.sold(); below != errors.Is(err, orders.ErrBelowSold) || !below && err != nil {
					r.Fatalf("total %d with %d sold: %v", changed.Total, w.sold(), err)
				} else if !below {
					w.put = changed
				}
			case "rebuild":
				check.Must(t, check.Err(b.Store.AskRebuild(t.Context(), "S")))
			case "flush":
				check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
				w.agree("before Redis loses its data")
				w.queued = nil
			}
			w.agree(fmt.Sprintf("step %d, %s", i, do))
		}
		w.end()
	})
}
