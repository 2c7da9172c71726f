package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/wire"
)

// A controlSale is a second sale on the nodes of an attack. The drill makes all of its
// requests, so it can time them for the guard that it tests.
type controlSale struct {
	*attack
	injector *injector
	sku      string
	terms    api.Terms
	buyers   int // buyers so far
}

// controlWindow is the payment window if orders must not expire.
const controlWindow = 15 * time.Minute

// withControlSale returns the do function of a fault. The function opens a control sale and
// then calls fault with it.
func withControlSale(total int64, window time.Duration, fault func(ctx context.Context, a *controlSale) error) func(*injector, step) error {
	return func(in *injector, _ step) error {
		a := &controlSale{attack: in.attack, injector: in, sku: "control", terms: api.Terms{
			Name: "Control", Price: 100, Currency: "EUR", UnitsPerBuyer: 1,
			OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(24 * time.Hour),
			PaymentWindowS: int64(window / time.Second),
		}}
		if err := a.putUntil(in.ctx, total); err != nil {
			return err
		}
		return fault(in.ctx, a)
	}
}

// put sets the total in both stores.
func (a *controlSale) put(ctx context.Context, total int64) error {
	a.terms.Total = total
	_, err := a.operator.PutSale(ctx, a.sku, a.terms)
	return err
}

// putUntil repeats put until the gate has the total. The node that keeps the sale may be
// paused or busy.
func (a *controlSale) putUntil(ctx context.Context, total int64) error {
	return a.until(ctx, "the control sale is at the gate", func(ctx context.Context) bool {
		return a.put(ctx, total) == nil && a.gate(ctx, "total") == total
	})
}

// key returns the name of a key of the gate.
func (a *controlSale) key(rest string) string { return "sale:{" + a.sku + "}" + rest }
func (a *controlSale) lock() string           { return "lock:{" + a.sku + "}" }

// gate returns a number stored at the gate, or -1 if it is missing.
func (a *controlSale) gate(ctx context.Context, field string) int64 {
	n, err := a.redis.HGet(ctx, a.key(""), field).Int64()
	if err != nil {
		return -1
	}
	return n
}

// row returns one number from the database.
func (a *controlSale) row(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = a.mysql.QueryRowContext(ctx, query, args...).Scan(&n)
	if err != nil {
		err = fmt.Errorf("query the database: %w", err)
	}
	return n, err
}

func (a *controlSale) count(ctx context.Context, where string) (int64, error) {
	return a.row(ctx, "SELECT COUNT(*) FROM orders WHERE sku = ? AND "+where, a.sku)
}

// untilCount waits for this number of orders.
func (a *controlSale) untilCount(ctx context.Context, what string, want int, where string) error {
	return a.until(ctx, what, func(ctx context.Context) bool {
		n, err := a.count(ctx, where)
		return err == nil && int(n) == want
	})
}

// inSale returns a number from the sale's row.
func (a *controlSale) inSale(ctx context.Context, column string) (int64, error) {
	return a.row(ctx, "SELECT "+column+" FROM sales WHERE sku = ?", a.sku)
}

func (a *controlSale) epoch(ctx context.Context) (int64, error) { return a.inSale(ctx, "epoch") }

// balanced waits until no unit of the sale is in between, and checks that the units add
// up. It also checks that the gate was not rebuilt: no store had lost anything, so nothing
// needed repair.
func (a *controlSale) balanced(ctx context.Context, epoch int64) error {
	var last api.Audit
	err := a.until(ctx, "the control sale is at rest", func(ctx context.Context) bool {
		audit, err := a.operator.Audit(ctx, a.sku)
		same := err == nil && audit == last
		last = audit
		return same && audit.Queued == 0 && audit.Restoring == 0
	})
	if err != nil {
		return err
	}
	if !last.Balanced {
		a.broke("drift: of the %d units of the control sale %d are available and %d sold", last.Total, last.Available, last.Sold)
	}
	now, err := a.epoch(ctx)
	if err == nil && now != epoch {
		if a.SumMetric(ctx, "flashsale_direct_entered_total") > 0 {
			return errors.New("the machine is too busy: a node lost contact with Redis and entered direct mode")
		}
		a.broke("drift: the gate of the control sale was repaired, although no store had lost anything")
	}
	return err
}

// A placed order of the control sale, with its buyer and the status of the answer.
type placed struct {
	ID     string
	buyer  string
	status int
}

// buy places an order of one unit by a new buyer and waits until it is durable.
func (a *controlSale) buy(ctx context.Context) (placed, error) {
	return a.place(ctx, http.StatusCreated)
}

// place places an order of one unit by a new buyer, and repeats it until an answer with the
// order has one of the statuses.
func (a *controlSale) place(ctx context.Context, want ...int) (p placed, err error) {
	a.buyers++
	p.buyer = fmt.Sprint("control-", a.buyers)
	err = a.until(ctx, fmt.Sprintf("an order of the control sale is answered %d", want), func(ctx context.Context) bool {
		c := a.order(ctx, p.buyer, 0)
		if slices.Contains(want, c.Status) && c.Order != nil {
			p.ID, p.status = c.Order.ID, c.Status
		}
		return p.ID != ""
	})
	return p, err
}

// order orders one unit with the buyer's n-th key.
func (a *controlSale) order(ctx context.Context, buyer string, n int) *call {
	return a.ask(ctx, n, call{verb: place, buyer: buyer, key: fmt.Sprint("key-", n), quantity: 1})
}

// ask sends a call to the nodes in turn. It does not use the balancer, because the first
// order at the balancer starts the attack. Each buyer has its own address.
func (a *controlSale) ask(ctx context.Context, n int, c call) *call {
	ctx, stop := context.WithTimeout(ctx, clientTimeout)
	defer stop()
	c.node, c.sku, c.ip = (a.buyers+n)%nodeCount, a.sku, fmt.Sprintf("172.16.%d.%d", a.buyers/250, a.buyers%250+1)
	return c.ask(ctx, a.Lab, http.DefaultClient)
}

// buyMany places n orders at the same time and waits until they are durable.
func (a *controlSale) buyMany(ctx context.Context, n int) ([]placed, error) {
	var g errgroup.Group
	all := make([]placed, n)
	for i := range all {
		one := *a // with buyers of its own
		one.buyers += i
		g.Go(func() (err error) {
			all[i], err = one.buy(ctx)
			return err
		})
	}
	a.buyers += n
	return all, g.Wait()
}

// end pays an order or cancels it, and returns the status of the answer. n chooses a node.
func (a *controlSale) end(ctx context.Context, p placed, how verb, n int) int {
	return a.ask(ctx, n, call{verb: how, buyer: p.buyer, order: p.ID, ref: "paid-" + p.ID}).Status
}

// breakpoint waits until the wire of a node has caught something.
func (a *attack) breakpoint(ctx context.Context, what string, arm func(n *lab.Node) *wire.Catch) (keeper *lab.Node, caught *wire.Catch, err error) {
	catches := make([]*wire.Catch, len(a.Nodes))
	for i, n := range a.Nodes {
		catches[i] = arm(n)
	}
	err = a.until(ctx, what, func(context.Context) bool {
		for i, c := range catches {
			select {
			case <-c.Caught():
				keeper, caught = a.Nodes[i], c
				return true
			default:
			}
		}
		return false
	})
	for _, c := range catches {
		if c != caught {
			c.Drop()
		}
	}
	return keeper, caught, err
}
