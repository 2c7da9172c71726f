package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
)

// An act is a storm over three new sales: the nemesis and the buyers until its
// time is over or a promise is broken, then calm, and then the verdict.
type act struct {
	*storm
	number    int // on this stage
	opened    time.Time
	skus      [skuCount]string
	condition condition
	lives     [skuCount]*life
	operator  *operator
	seen      atomic.Pointer[snapshot]
	direct    atomic.Bool // a sale was sold in direct mode
	onPayment atomic.Bool // the last sale takes units when an order is paid
	faults    atomic.Int64
	whole     context.Context    // of the run: what buyers have begun they finish after the storm
	stop      context.CancelFunc // ends the harm and the buying
	more      sync.WaitGroup     // what buyers do later

	reads, unread int // of the watch, which has ended before they are looked at

	booking  sync.Mutex
	book     []*call // calls of the buyers
	promises []call  // the first accepted call of each intent
	promised map[intent]bool

	mu     sync.Mutex
	began  time.Time
	events []string
	breaks []string
	alike  map[string]int
}

// rest ends the question whether sales go on: nobody buys any more.
func (c *condition) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = true
}

// later has something done that the act waits for at its end.
func (a *act) later(do func()) { a.more.Go(do) }

// at is now, in seconds of the act.
func (a *act) at() string { return fmt.Sprintf("%5.1fs  ", time.Since(a.began).Seconds()) }

// did notes a step of the harm.
func (a *act) did(event string) {
	a.mu.Lock() // for Say too: two faults can be under way at once
	defer a.mu.Unlock()
	event = a.at() + event
	a.Say("%s", event)
	a.events = append(a.events, event)
}

// maxAlike is how many lines of one kind are reported.
const maxAlike = 3

// broke notes that a promise is broken, and ends the storm: what comes after
// explains nothing. Of each kind the first few are kept.
func (a *act) broke(line string) {
	kind := kindOf(line)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alike[kind]++; a.alike[kind] > maxAlike {
		return
	}
	line = a.at() + line
	a.Say("BROKEN: %s", line)
	a.breaks = append(a.breaks, line)
	a.stop()
}

// An operator changes what is on sale: for some seconds there is enough, then
// the sale is cut down to what is sold and is sold out until units come back.
// The last sale now and then changes when it takes units: at the order, or at
// its payment.
type operator struct {
	*act

	mu   sync.Mutex
	left map[string]bool // to the nemesis
}

const (
	plenty = 25 // units, whenever there are less than
	few    = 12
)

// operate looks after one sale until ctx ends.
func (o *operator) operate(ctx context.Context, sku string, random *rand.Rand) {
	for ctx.Err() == nil {
		if sku == o.skus[skuCount-1] && random.IntN(2) == 0 && o.mine(sku) { // the change applies from the next PutSale on
			o.onPayment.Store(!o.onPayment.Load())
		}
		for until := time.Now().Add(time.Duration(2000+random.IntN(4000)) * time.Millisecond); time.Now().Before(until) && ctx.Err() == nil; {
			if seen := o.seen.Load(); seen != nil && seen.sales[sku].total-seen.sales[sku].sold < few && o.mine(sku) {
				o.stock(ctx, sku, plenty)
			}
			sleep(ctx, 100*time.Millisecond)
		}
		for range 1 + random.IntN(3) {
			if o.mine(sku) {
				o.stock(ctx, sku, int64(random.IntN(3)))
			}
			sleep(ctx, time.Duration(300+random.IntN(700))*time.Millisecond)
		}
	}
}

// mine reports whether the operator may change the sale. It may not while the nemesis has
// the sale.
func (o *operator) mine(sku string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.left[sku]
}

// leave leaves a sale to the nemesis, or takes it back.
func (o *operator) leave(sku string, left bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left[sku] = left
}

// stock puts so many units on sale beside those that are sold. It may fail, as
// more may have been sold since, and nodes may be away.
func (o *operator) stock(ctx context.Context, sku string, spare int64) {
	seen := o.seen.Load()
	nodes := o.condition.well()
	if seen == nil || len(nodes) == 0 {
		return
	}
	_ = o.put(ctx, nodes[rand.IntN(len(nodes))], sku, seen.sales[sku].sold+spare, o.opened.Add(24*time.Hour))
}

// put changes a sale.
func (a *act) put(ctx context.Context, node int, sku string, total int64, closes time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	operator, err := a.Operator(a.Nodes[node].URL())
	if err != nil {
		return err
	}
	reserveOn := "order"
	if a.onPayment.Load() && sku == a.skus[skuCount-1] {
		reserveOn = "payment"
	}
	_, err = operator.Put(ctx, sku, api.Terms{
		Name: "Storm", Price: 100, Currency: "EUR", Total: total, PerBuyerLimit: buyerLimit,
		OpensAt: a.opened, ClosesAt: closes, PaymentWindowS: int64(window / time.Second), ReserveOn: reserveOn,
	})
	return err
}

// sleep lets d pass, or the time until ctx ends.
func sleep(ctx context.Context, d time.Duration) { _ = client.Wait(ctx, d) }

// kindOf is what comes before the colon of something broken.
func kindOf(line string) string {
	kind, _, _ := strings.Cut(line, ":")
	return kind
}
