package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/inventory"
	"flashsale/loadtest/servers"
)

var perOrder = benchmark{
	name:  "lock",
	about: "durable orders, against a lock, a transaction and an unlock for each order",
	needs: wrkProgram,
	rows:  []Row{{Item: "1", Name: "durable orders / lock-per-order", Unit: "orders/s"}},
	run:   againstVariants,
}

var otherWays = benchmark{
	name:  "variants",
	about: "durable orders, against the other right ways to sell of the gallery",
	needs: wrkProgram,
	rows: []Row{
		{Item: "1b", Name: "durable orders / conditional-update", Unit: "orders/s", Target: atLeast(8)},
		{Item: "1c", Name: "durable orders / select-for-update", Unit: "orders/s"},
		{Item: "1d", Name: "durable orders / watch-multi", Unit: "orders/s"},
		{Item: "1e", Name: "durable orders / row-per-unit", Unit: "orders/s"},
	},
	run: againstVariants,
}

// againstVariants compares a node with a node of each variant that a row names.
func againstVariants(ctx context.Context, l *bench, rows []Row) error {
	ours, err := l.startNode(ctx)
	if err != nil {
		return err
	}
	var theirs []measure
	for _, row := range rows {
		_, variant, _ := strings.Cut(row.Name, " / ")
		other, err := l.start(ctx, "", lab.NodeConfig{Strategy: variant})
		if err != nil {
			return err
		}
		theirs = append(theirs, other.selling(""))
	}
	return l.contest(ctx, rows, ours.selling(""), theirs...)
}

var durable = benchmark{
	name:  "durable",
	about: "orders that are in MySQL before the 201, against a gin handler with constant JSON",
	needs: wrkProgram,
	rows: []Row{
		{Item: "2a", Name: "durable orders (201) / gin hello", Unit: "req/s", Target: atLeast(0.2)},
		{Item: "16", Name: "CPU time of an order / of gin hello", Unit: "µs", Target: Target{Bound: 6}, ofCPU: true},
	},
	run: againstHello(""),
}

var queued = benchmark{
	name:  "queued",
	about: "orders answered 202 once they are queued, against the same handler",
	needs: wrkProgram,
	rows:  []Row{{Item: "2b", Name: "queued orders (202) / gin hello", Unit: "req/s", Target: atLeast(0.25)}},
	run:   againstHello(preferAsync),
}

func againstHello(header string) func(context.Context, *bench, []Row) error {
	return func(ctx context.Context, l *bench, rows []Row) error {
		ours, hello, err := l.startWithHello(ctx)
		if err != nil {
			return err
		}
		return l.contest(ctx, rows, ours.selling(header), l.greeting(hello, header))
	}
}

// plenty is a total that no measurement can sell out.
const plenty = 100_000_000

// errCounts means that a measurement is invalid: the clients' answers and the
// database differ.
var errCounts = errors.New("measurement not valid: the counts do not match")

// preferAsync requests a 202 before the order is durable.
const preferAsync = "Prefer: respond-async"

// selling measures the orders per second that wrk places in a new sale, and checks
// that each acceptance has a row.
func (n *node) selling(header string) measure {
	return func(ctx context.Context) (sample, error) {
		sale, total := n.l.next("sale"), plenty
		if n.metrics == "" { // the variant row-per-unit creates a row for each unit
			total = 20_000 * (n.l.cfg.Seconds + 1)
		}
		if err := n.openSale(ctx, sale, 1, total); err != nil {
			return sample{}, err
		}
		return n.sell(ctx, sale, 1, header)
	}
}

// sell lets wrk order, and waits until all orders are durable. The CPU time of that
// wait belongs to the orders.
func (n *node) sell(ctx context.Context, sale string, skus int, header string) (s sample, err error) {
	had, err := n.rows(ctx, sale)
	if err != nil {
		return s, err
	}
	var r wrkResult
	late, err := n.answeredDuring(ctx, http.StatusAccepted, "", func() (err error) {
		stop := n.meter.start()
		if r, err = n.l.wrk(ctx, n.Addr(), load{sale, skus, header}); err != nil {
			return err
		}
		rows, err := n.settle(ctx, sale, skus)
		if err != nil {
			return err
		}
		s = sample{value: r.perSecond(r.good()), cpu: stop(float64(rows - had))}
		return checkCounts(r, rows-had, n.l.cfg.Connections)
	})
	if err != nil {
		return s, err
	}
	if r.status > 0 {
		s.note = fmt.Sprintf("in a measurement %d of %d requests were refused; they are not counted", r.status, r.requests)
		n.l.Progressf("  %d of %d requests were refused: %s", r.status, r.requests, n.LogTail())
	}
	if late > 0 && header != preferAsync {
		// Orders that were not durable when they were answered do not count.
		s.value = r.perSecond(r.good() - late)
		s.note = fmt.Sprintf("in a measurement %d of %d orders were not durable within the wait and got 202; they are not counted", late, r.good())
		n.l.Progressf("  %d of %d orders got 202: not durable within the wait", late, r.good())
	}
	return s, nil
}

// checkCounts compares the database's rows with wrk's count of 2xx answers. wrk aborts
// requests in flight when it ends, so there may be one more row per connection. A
// measurement with mostly refusals is invalid, because no limit should apply.
func checkCounts(r wrkResult, rows int64, connections int) error {
	switch good := r.good(); {
	case good == 0:
		return fmt.Errorf("%w: none of the %d answers was an acceptance", errCounts, r.requests)
	case rows < good:
		return fmt.Errorf("%w: got %d rows, want at least the %d accepted orders", errCounts, rows, good)
	case rows > good+int64(connections):
		return fmt.Errorf("%w: got %d rows, want at most %d accepted orders and %d in flight", errCounts, rows, good, connections)
	case r.status > good:
		return fmt.Errorf("%w: %d of %d requests were refused, want fewer than half", errCounts, r.status, r.requests)
	}
	return nil
}

// rows returns the number of durable orders of a sale.
func (n *node) rows(ctx context.Context, sale string) (rows int64, err error) {
	err = n.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE sku LIKE CONCAT(?, '-%') AND status = 'pending_payment'", sale).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", sale, err)
	}
	return rows, nil
}

// settle waits until no order of the sale is queued or in flight, and returns its rows.
func (n *node) settle(ctx context.Context, sale string, skus int) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // enough for a long queue
	defer cancel()
	last := int64(-1)
	err = lab.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		summaries, err := n.gate.Summaries(ctx, skusOf(sale, skus)...)
		if err != nil || slices.ContainsFunc(summaries, func(g inventory.Summary) bool { return g.QueuedOrders > 0 }) {
			return false, err
		}
		rows, err = n.rows(ctx, sale)
		atRest := rows == last
		last = rows
		return atRest, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait for %s to be durable: %w", sale, err)
	}
	return rows, nil
}

// greeting measures the gin server with the same requests.
func (l *bench) greeting(hello *servers.Process, header string) measure {
	return func(ctx context.Context) (sample, error) {
		stop := meter{hello.Pid()}.start()
		r, err := l.wrk(ctx, hello.Addr(), load{l.next("sale"), 1, header})
		if err != nil {
			return sample{}, err
		}
		if r.status > 0 {
			return sample{}, fmt.Errorf("%w: the plain server refused %d of %d requests, want none", errCounts, r.status, r.requests)
		}
		return sample{value: r.perSecond(r.requests), cpu: stop(float64(r.requests))}, nil
	}
}

func skusOf(sale string, skus int) (names []string) {
	for i := range skus {
		names = append(names, fmt.Sprintf("%s-%03d", sale, i))
	}
	return names
}
