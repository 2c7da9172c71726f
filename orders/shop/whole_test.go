package shop

import (
	"context"
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
	"flashsale/orders/keeper"
)

// whole is a sale in which everything happens in any order: orders, replays,
// payments, cancellations, expiry, changed totals, keepers that die at any step
// or come back too late, and a Redis that loses everything. Beside it runs a
// plain model: a list of what was let in and a list of rows.
type whole struct {
	*bare.Bare
	t     *rapid.T
	outer *testing.T
	shop  *Service
	put   orders.Sale

	queued  []inventory.Queued // let in by the gate and not known to be rows, in order
	rows    []orders.Order     // as they must be
	refunds map[orders.LatePayment]orders.Reason
	keepers []*bare.Keeper // all that ever were; the last one is the newest
	isOpen  bool           // the gate is: who hears that it is being rebuilt waits for units that rest
}

// agree compares the database with the model, and takes note of what a keeper
// has carried over since: it must be what the model's judge says of it.
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
		says := kit.Decision(&w.put, w.rows, q)
		want := map[string]orders.Status{"sold": orders.PendingPayment, "rejected sold_out": orders.Rejected, "rejected buyer_limit": orders.Rejected}[says]
		if row.Status != want || row.Status == orders.Rejected && "rejected "+string(row.Reason) != says {
			w.t.Fatalf("%s: %+v became %s %s, the model says %s", when, q, row.Status, row.Reason, says)
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

// agreeLate takes note of what has become of the attempt of a late payment:
// true once it has paid its order or been refunded. One that came too late for
// either leaves no trace.
func (w *whole) agreeLate(when string, q inventory.Queued, p orders.LatePayment, row orders.Order, refund orders.Reason) bool {
	o := w.row(p.Order)
	paid := row.HoldID != nil && *row.HoldID == q.OrderID && o.Status != orders.Paid
	if _, known := w.refunds[p]; !paid && (known || refund == "") {
		return false
	}
	says := ""
	if held := w.units(o.Buyer); held+o.Quantity > w.put.PerBuyerLimit {
		says = "buyer_limit"
	} else if w.sold()+o.Quantity > w.put.Total {
		says = "sold_out"
	}
	if o.Status != orders.Expired || string(refund) != says || paid != (refund == "") {
		w.t.Fatalf("%s: payment %v of %+v: paid %v, refund %q, the model says %q", when, p, *o, paid, refund, says)
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

// payLate is the payment of an expired order up to where it is queued, by a
// node that dies then. What the gate refuses is refunded, and so may be what it
// has let in, where the payer could not wait.
func (w *whole) payLate(o *orders.Order, ref string, patient bool) {
	ctx, p := w.outer.Context(), orders.LatePayment{Order: o.ID, Ref: ref}
	row, decided, err := w.Store.Payment(ctx, o.Buyer, o.ID, ref)
	_, refunded := w.refunds[p]
	mine := o.PaymentRef != nil && *o.PaymentRef == ref
	if want := map[bool]error{refunded: orders.ErrOrderClosed, !refunded && o.Status == orders.Paid && !mine: orders.ErrAlreadyPaid}[true]; !errors.Is(err, want) ||
		decided != (refunded || o.Status == orders.Paid) {
		w.t.Fatalf("payment %v of %+v: decided %v, %v; the model wants %v", p, *o, decided, err, want)
	}
	if decided || row.RestoredAt == nil {
		return
	}
	late := &latePayment{Service: w.shop, ref: ref}
	no := late.holdAgain(ctx, row)
	if hold := late.hold; hold != nil {
		late.stop()
		if !slices.ContainsFunc(w.queued, func(q inventory.Queued) bool { return q.OrderID == hold.id }) {
			w.queued = append(w.queued, inventory.Queued{OrderID: hold.id, Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, Pays: o.ID})
		}
	}
	if no == "" && !patient {
		no = orders.Unavailable
	}
	if no != "" {
		if err := w.Store.RecordClaim(ctx, row, ref, no); err != nil {
			w.t.Fatal(err)
		}
		w.refunds[p] = no
	}
}

func (w *whole) sold() (units int64) {
	for _, o := range w.rows {
		if o.Status.Open() {
			units += o.Quantity
		}
	}
	return units
}

// order places one, or replays one. A durable order under the key must be what
// is answered, unless the gate is away or has not heard of it.
func (w *whole) order(p Placement) {
	p.SKU, p.Async = "S", true
	var answer Placed
	var err error
	check.Eventually(w.outer, "units no longer rest", func() bool {
		answer, err = w.shop.Place(w.outer.Context(), p)
		return !errors.Is(err, inventory.ErrCoolingDown) && !(w.isOpen && errors.Is(err, inventory.ErrRebuilding))
	})
	first := slices.IndexFunc(w.rows, func(o orders.Order) bool {
		return p.Key != "" && o.Buyer == p.Buyer && o.IdempotencyKey != nil && *o.IdempotencyKey == p.Key
	})
	switch {
	case err != nil && isUnavailable(err):
	case first >= 0 && w.rows[first].RequestHash != orders.Fingerprint(p.SKU, p.Quantity):
		if !errors.Is(err, inventory.ErrMismatch) && !(err == nil && answer.Order.Status == orders.Reserved) {
			w.t.Fatalf("%+v under the key of %+v: %+v, %v", p, w.rows[first], answer.Order, err)
		}
	case first >= 0 && w.rows[first].Status == orders.Rejected:
		if err == nil && answer.Order.Status != orders.Reserved {
			w.t.Fatalf("%+v, rejected before: %+v", p, answer.Order)
		}
	case first >= 0:
		if err != nil || answer.Order.Status != orders.Reserved && (answer.Order.ID != w.rows[first].ID || answer.Order.Status != w.rows[first].Status) {
			w.t.Fatalf("%+v is %+v: %+v, %v", p, w.rows[first], answer.Order, err)
		}
	case err == nil && answer.Order.Status != orders.Reserved:
		w.t.Fatalf("%+v: durable from nowhere: %+v", p, answer.Order)
	}
	if err == nil && answer.Order.Status == orders.Reserved && !answer.Replayed {
		w.queued = append(w.queued, inventory.Queued{
			OrderID: answer.Order.ID, Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: orders.Fingerprint(p.SKU, p.Quantity),
		})
	}
}

// close pays, cancels or expires a row, and must be told what the model says.
func (w *whole) close(o *orders.Order, how string) {
	ctx, id := w.outer.Context(), o.ID
	var err, want error
	switch how {
	case "pay":
		_, err = w.Store.Pay(ctx, o.Buyer, id, "ref")
		if o.Status == orders.PendingPayment {
			o.Status = orders.Paid
		} else if o.Status != orders.Paid {
			want = orders.ErrOrderClosed
		} else if o.PaymentRef != nil { // paid late, by another
			want = orders.ErrAlreadyPaid
		}
	case "cancel":
		_, err = w.Store.Cancel(ctx, o.Buyer, id)
		switch o.Status {
		case orders.PendingPayment:
			o.Status = orders.Cancelled
		case orders.Paid:
			want = orders.ErrAlreadyPaid
		case orders.Expired, orders.Rejected:
			want = orders.ErrOrderClosed
		}
	case "pay too late":
		kit.Overdue(w.outer, w.Store.DB, id)
		_, err = w.Store.Pay(ctx, o.Buyer, id, "ref")
		if o.Status == orders.PendingPayment {
			o.Status = orders.Expired
		}
		if o.Status != orders.Paid {
			want = orders.ErrOrderClosed
		} else if o.PaymentRef != nil {
			want = orders.ErrAlreadyPaid
		}
	case "expire":
		kit.Overdue(w.outer, w.Store.DB, id)
		_, err = w.Store.Expire(ctx)
		if o.Status == orders.PendingPayment {
			o.Status = orders.Expired
		}
	}
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		w.t.Fatalf("%s of %+v: %v, want %v", how, o, err, want)
	}
}

// keep takes over and makes passes until all is done, or until a fault stops it.
func (w *whole) keep(faults kit.Plan) {
	failing := false
	plan := kit.Plan(func(at kit.Fault) error {
		if failing {
			return faults(at)
		}
		return nil
	})
	k := bare.KeeperOf(w.outer, bare.FaultyStore(w.outer, w.Store, plan), bare.Faulty(w.Gate, plan), "S")
	failing = faults != nil
	if err := k.Run(w.outer.Context()); err != nil && !errors.Is(err, kit.ErrFault) {
		w.t.Fatalf("keeper: %v", err)
	}
	failing = false // should it come back, it sees the stores again
	w.keepers = append(w.keepers, k)
}

// stale has an earlier keeper go on as if nothing had happened.
func (w *whole) stale(k *bare.Keeper, newest bool) {
	k.Want |= keeper.Release | keeper.Inspect
	err := k.Run(context.WithoutCancel(w.outer.Context()))
	fenced := errors.Is(err, orders.ErrFenced)
	if err != nil && !fenced || newest && fenced {
		w.t.Fatalf("keeper with fence %d came back: %v", k.Fence(), err)
	}
}

// end settles everything and checks the law of conservation, that all units
// that are left can be sold, and that every key still finds its order.
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
			w.t.Fatalf("%s has %d units", o.Buyer, units[o.Buyer])
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
		w.t.Fatalf("%d units are stranded", w.put.Total-w.sold())
	}
	for _, o := range w.rows {
		if o.IdempotencyKey == nil {
			continue
		}
		p := Placement{Buyer: o.Buyer, SKU: "S", Quantity: o.Quantity, Key: *o.IdempotencyKey}
		answer, err := w.shop.Place(w.outer.Context(), p)
		if o.Status == orders.Rejected && !errors.Is(err, o.Reason.Err()) || o.Status != orders.Rejected && (err != nil || answer.Order.ID != o.ID) {
			w.t.Fatalf("replay of %+v: %+v, %v", o, answer.Order, err)
		}
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	b := bare.Open(t, s, kit.Sale("S", 1, 1))
	rapid.Check(t, func(r *rapid.T) {
		b.Empty(t)
		b.Gate = bare.NewGate(b.Rdb, time.Nanosecond) // remembers nothing of the last run
		w := &whole{Bare: b, t: r, outer: t, refunds: map[orders.LatePayment]orders.Reason{}, put: kit.Sale("S", rapid.Int64Range(1, 8).Draw(r, "total"), 3)}
		w.shop = New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)})
		kit.Put(t, b.Store, w.put)
		w.keep(nil)
		buyer, key := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe"}), rapid.SampledFrom([]string{"", "", "k", "l", "m"})
		step := rapid.SampledFrom([]string{"queue", "commit", "ack", "release", "confirm", "mark", "terms", "shut", "recount", "install"})
		ends := rapid.SampledFrom([]string{"pay", "cancel", "cancel", "expire", "pay too late"})
		for i := range rapid.IntRange(5, 40).Draw(r, "steps") {
			do := rapid.SampledFrom([]string{
				"order", "order", "order", "order", "order", "close", "close", "late", "late", "keep", "keep", "die", "slip", "stale", "stale", "total", "rebuild", "flush",
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
			case "die", "slip": // what slipped goes on as stale, or never
				at := kit.Fault{Step: step.Draw(r, "step"), After: rapid.Bool().Draw(r, "after")}
				die, _ := kit.FromThenOn(at)
				slip, _ := kit.Once(at)
				w.keep(map[string]kit.Plan{"die": die, "slip": slip}[do])
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
				w.agree("before all is lost")
				w.queued = nil
			}
			w.agree(fmt.Sprintf("step %d, %s", i, do))
		}
		w.end()
	})
}
