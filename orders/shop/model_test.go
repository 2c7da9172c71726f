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

// modelSale is a sale and a simple model of it, in which random steps are run: orders, replays,
// payments, cancellations, expiries, changes of the total, keepers that crash at a step or wake
// up late, and losses of Redis's data. The model is a list of queued orders and a list of rows.
type modelSale struct {
	*bare.Bare
	t     *rapid.T
	outer *testing.T
	shop  *Service
	put   orders.Sale

	queued  []inventory.QueuedOrder // accepted by the gate and not yet found in the database, in order
	rows    []orders.Order          // rows that the database must have
	refunds map[orders.Payment]orders.Reason
	keepers []*bare.Keeper // all keepers of the run, the newest last
	isOpen  bool           // the gate is open, so ErrRebuilding means that units are cooling down
}

// agree compares the database with the model. Orders that a keeper has committed since the last
// call move from queued to rows. kit.Decision must make the same decisions.
func (m *modelSale) agree(when string) {
	real := m.Bare.Rows(m.outer)
	refunds := map[orders.Payment]orders.Reason{}
	list, _, err := m.Store.Claims(m.outer.Context(), 1000, "")
	if err != nil {
		m.t.Fatalf("read the queue: got error %v, want none", err)
	}
	for _, r := range list {
		refunds[orders.Payment{OrderID: r.OrderID, Ref: r.PaymentRef}] = r.Reason
	}
	m.queued = slices.DeleteFunc(m.queued, func(q inventory.QueuedOrder) bool {
		if p, ok := orders.PaymentOf(q); ok {
			return m.agreeLate(when, q, p, real[p.OrderID], refunds[p])
		}
		row, ok := real[q.OrderID]
		if !ok {
			return false
		}
		decision := kit.ModelDecision(&m.put, m.rows, q)
		want := map[string]orders.Status{"sold": orders.PendingPayment, "rejected sold_out": orders.Rejected, "rejected buyer_limit": orders.Rejected}[decision]
		if row.Status != want || row.Status == orders.Rejected && "rejected "+string(row.Reason) != decision {
			m.t.Fatalf("decision %s: order %+v became %s %s, the model wants %s", when, q, row.Status, row.Reason, decision)
		}
		m.rows = append(m.rows, row)
		return true
	})
	if !maps.Equal(refunds, m.refunds) {
		m.t.Fatalf("refunds %s: got %v, the model wants %v", when, refunds, m.refunds)
	}
	if len(real) != len(m.rows) {
		m.t.Fatalf("orders %s: got %d rows, the model wants %d", when, len(real), len(m.rows))
	}
	for i := range m.rows {
		if r := real[m.rows[i].ID]; r.Status != m.rows[i].Status || r.Quantity != m.rows[i].Quantity || r.Buyer != m.rows[i].Buyer {
			m.t.Fatalf("row %s: got %+v, the model wants %+v", when, r, m.rows[i])
		}
	}
	sale, err := m.Store.Sale(m.outer.Context(), "S")
	if err != nil || sale.Sold != m.sold() || sale.Sold > sale.Total || sale.Total != m.put.Total {
		m.t.Fatalf("sale %s: got %+v, the model wants sold %d of %d (error %v)", when, sale, m.sold(), m.put.Total, err)
	}
}

// agreeLate compares the outcome of a late payment with the model. It returns true once the
// payment has paid its order or has a refund claim. A payment that was superseded by another
// one has no outcome of its own.
func (m *modelSale) agreeLate(when string, q inventory.QueuedOrder, p orders.Payment, row orders.Order, refund orders.Reason) bool {
	o := m.row(p.OrderID)
	paid := row.HoldID != nil && *row.HoldID == q.OrderID && o.Status != orders.Paid
	if _, known := m.refunds[p]; !paid && (known || refund == "") {
		return false
	}
	want := ""
	if o.Status == orders.Cancelled { // paid by another payment, and taken back
		want = "cancelled"
	} else if units := m.units(o.Buyer); units+o.Quantity > m.put.UnitsPerBuyer {
		want = "buyer_limit"
	} else if m.sold()+o.Quantity > m.put.Total {
		want = "sold_out"
	}
	if o.Status != orders.Expired && o.Status != orders.Cancelled || string(refund) != want || paid != (refund == "") {
		m.t.Fatalf("late payment %s: payment %v of %+v: got paid %v, refund %q, the model wants refund %q", when, p, *o, paid, refund, want)
	}
	if paid {
		o.Status, o.PaymentRef = orders.Paid, &p.Ref
	} else {
		m.refunds[p] = refund
	}
	return true
}

func (m *modelSale) row(id string) *orders.Order {
	return &m.rows[slices.IndexFunc(m.rows, func(o orders.Order) bool { return o.ID == id })]
}

func (m *modelSale) units(buyer string) (units int64) {
	for _, o := range m.rows {
		if o.Buyer == buyer && o.Status.CountsAsSold() {
			units += o.Quantity
		}
	}
	return units
}

func (m *modelSale) sold() (units int64) {
	for _, o := range m.rows {
		if o.Status.CountsAsSold() {
			units += o.Quantity
		}
	}
	return units
}

// end settles the sale. It checks that the units add up, that all unsold units can be sold, and
// that a replay of every key returns its order.
func (m *modelSale) end() {
	m.keep(nil)
	m.isOpen = true
	m.agree("at the end")
	a := m.Audit(m.outer)
	if !a.Balanced || a.Queued != 0 || a.Restoring != 0 || a.Available != m.put.Total-m.sold() {
		m.t.Fatalf("sale at the end: got audit %+v, the model wants sold %d", a, m.sold())
	}
	pending, units := int64(0), map[string]int64{}
	for _, o := range m.rows {
		if o.Status == orders.PendingPayment {
			pending++
		}
		if o.Status.CountsAsSold() {
			units[o.Buyer] += o.Quantity
		}
		if units[o.Buyer] > m.put.UnitsPerBuyer {
			m.t.Fatalf("buyer %s: got %d units, want at most %d", o.Buyer, units[o.Buyer], m.put.UnitsPerBuyer)
		}
	}
	if view, err := m.Gate.Inspect(m.outer.Context(), "S"); err != nil || view.Holds != pending {
		m.t.Fatalf("gate at the end: got %d holds for %d pending orders (error %v), want one each", view.Holds, pending, err)
	}
	for i := range a.Available {
		m.order(Placement{Buyer: fmt.Sprint("fresh-", i), Quantity: 1})
	}
	m.keep(nil)
	m.agree("sold out")
	if m.sold() != m.put.Total {
		m.t.Fatalf("sale at the end: got %d units that cannot be sold, want none", m.put.Total-m.sold())
	}
	for _, o := range m.rows {
		if o.IdempotencyKey == nil {
			continue
		}
		p := Placement{Buyer: o.Buyer, SKU: "S", Quantity: o.Quantity, Key: *o.IdempotencyKey}
		answer, err := m.shop.Place(m.outer.Context(), p)
		if o.Status == orders.Rejected && !errors.Is(err, o.Reason.Err()) || o.Status != orders.Rejected && (err != nil || answer.Order.ID != o.ID) {
			m.t.Fatalf("replay of %+v: got %+v, error %v, want the same order", o, answer.Order, err)
		}
	}
}

func TestRandomStepsAgainstModel(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	b := bare.Open(t, s, kit.Sale("S", 1, 1))
	rapid.Check(t, func(r *rapid.T) {
		b.DeleteAll(t)
		b.Gate = bare.NewGate(b.Rdb, time.Nanosecond) // has no memory of the last run
		m := &modelSale{Bare: b, t: r, outer: t, refunds: map[orders.Payment]orders.Reason{}, put: kit.Sale("S", rapid.Int64Range(1, 8).Draw(r, "total"), 3)}
		m.shop = owning(t, New(Config{Store: b.Store, Gate: b.Gate, Redis: b.Rdb, Log: check.Log(t)}))
		kit.PutSale(t, b.Store, m.put)
		m.keep(nil)
		buyer, key := rapid.SampledFrom([]string{"ann", "bob", "eve", "joe"}), rapid.SampledFrom([]string{"", "", "k", "l", "m"})
		step := rapid.SampledFrom([]string{"queue", "commit", "ack", "release", "drop", "mark", "terms", "shut", "recount", "install"})
		ends := rapid.SampledFrom([]string{"pay", "pay", "cancel", "expire", "pay too late", "void", "void", "pay a wrong amount"})
		for i := range rapid.IntRange(5, 40).Draw(r, "steps") {
			do := rapid.SampledFrom([]string{
				"order", "order", "order", "order", "order", "close", "close", "late", "late", "keep", "keep", "crash", "fail", "stale", "stale", "total", "rebuild", "flush",
			}).Draw(r, "do")
			switch do {
			case "order":
				m.order(Placement{Buyer: buyer.Draw(r, "buyer"), Quantity: rapid.Int64Range(1, 2).Draw(r, "quantity"), Key: key.Draw(r, "key")})
			case "close":
				if len(m.rows) > 0 {
					m.close(&m.rows[rapid.IntRange(0, len(m.rows)-1).Draw(r, "row")], ends.Draw(r, "how"))
				}
			case "late":
				closed := []*orders.Order{}
				for i := range m.rows {
					if m.rows[i].Status == orders.Expired || m.rows[i].Status == orders.Paid && m.rows[i].PaymentRef != nil {
						closed = append(closed, &m.rows[i])
					}
				}
				if len(closed) > 0 {
					m.payLate(rapid.SampledFrom(closed).Draw(r, "expired"), rapid.SampledFrom([]string{"p", "q"}).Draw(r, "ref"), rapid.IntRange(0, 3).Draw(r, "patience") > 0)
				}
			case "keep":
				m.keep(nil)
			case "crash", "fail": // the step "stale" may run the keeper again
				at := kit.Fault{Step: step.Draw(r, "step"), After: rapid.Bool().Draw(r, "after")}
				crash, _ := kit.FromThenOn(at)
				fail, _ := kit.Once(at)
				m.keep(map[string]kit.Plan{"crash": crash, "fail": fail}[do])
			case "stale":
				n := rapid.IntRange(0, len(m.keepers)-1).Draw(r, "keeper")
				m.stale(m.keepers[n], n == len(m.keepers)-1)
			case "total":
				changed := m.put
				changed.Total = rapid.Int64Range(0, 10).Draw(r, "total")
				_, err := b.Store.PutSale(t.Context(), changed)
				if below := changed.Total < m.sold(); below != errors.Is(err, orders.ErrBelowSold) || !below && err != nil {
					r.Fatalf("total %d with %d units sold: got error %v, want ErrBelowSold only if the total is below", changed.Total, m.sold(), err)
				} else if !below {
					m.put = changed
				}
			case "rebuild":
				check.Must(t, check.Err(b.Store.RequestRebuild(t.Context(), "S")))
			case "flush":
				check.Must(t, b.Rdb.FlushAll(t.Context()).Err())
				m.agree("before Redis loses its data")
				m.queued = nil
			}
			m.agree(fmt.Sprintf("step %d, %s", i, do))
		}
		m.end()
	})
}
