package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

const (
	maxVisits  = 100_000          // of one crowd: the answers to all are remembered
	comeBack   = 0.2              // share of buyers who have been there before
	payWithin  = 20 * time.Second // the longest that one takes to pay or to cancel
	lastVisits = 100              // from which those come who come back
)

// Turnout is what became of a crowd, one count for each visit. Failed are those
// that had no definite answer when the crowd ended. Paid and Cancelled are some of the
// Orders.
type Turnout struct{ Orders, SoldOut, Refused, Failed, Paid, Cancelled int }

func (t Turnout) String() string {
	return fmt.Sprintf("%s (%d paid, %d cancelled), %d sold out, %d refused, %d failed",
		judge.Plural(t.Orders, "order"), t.Paid, t.Cancelled, t.SoldOut, t.Refused, t.Failed)
}

// Gentle is the Config of a crowd. Most of its buyers pay, some cancel, and the
// orders of the rest expire.
func Gentle() Config {
	c := Defaults()
	c.Rate, c.Duration, c.Payments, c.Cancels = 30, 5*time.Minute, 0.7, 0.15
	return c
}

// SendCrowd sends Rate buyers per second to a sale that is there already, c.SKU or
// else the newest that is open. It waits until the sale opens. Nothing is judged.
// It ends after c.Duration, with the sale or with ctx, when the last buyer has left.
func SendCrowd(ctx context.Context, c Config) (t Turnout, err error) {
	if err := c.Validate(); err != nil {
		return t, err
	}
	if c.requests() > maxVisits {
		return t, fmt.Errorf("crowd: %d buyers, want %d at most", c.requests(), maxVisits)
	}
	conns := client.NewHTTP(attackConns, c.Timeout)
	defer conns.CloseIdleConnections()
	r := &run{c: c, patience: c.withPatience(), crowd: newCrowd(c.Token), progress: &progress{w: c.Progress}}
	r.operator = client.NewOperator(client.New(c.Target, "", conns), "")
	s, err := r.find(ctx, c.SKU)
	switch {
	case err != nil:
		return t, fmt.Errorf("crowd: %w", err)
	case s.SKU == "" || s.State == "closed":
		return t, fmt.Errorf("crowd: %s at %s (flashsale sale show lists all)", strings.TrimPrefix(c.SKU+": no open sale", ": "), c.Target)
	case s.judged():
		return t, fmt.Errorf("crowd: a load test judges %s: the order of anybody else would be a violation", s.SKU)
	}
	r.client = client.New(c.Target, s.SKU, conns)
	r.progress.say("%d buyers per second come to %s, for %v", c.Rate, s.SKU, c.Duration)
	_ = client.Wait(ctx, time.Until(s.OpensAt)) // if ctx ends, nobody comes

	ctx, end := context.WithTimeout(ctx, c.Duration)
	defer end()
	var coming sync.WaitGroup
	coming.Go(func() { r.untilClosed(ctx, s.SKU, end) })
	r.progress.start("crowd", c.requests(), &r.stock)
	err = r.arrive(ctx, s, &coming)
	end()
	coming.Wait()
	r.progress.end()
	return r.turnout(), err
}

// offered is a sale that is there already.
type offered struct {
	client.Sale
	SKU, State string
	Available  int
}

// find reads the sale, or the newest that is open and not judged. There may be none.
func (r *run) find(ctx context.Context, sku string) (offered, error) {
	var all struct{ Sales []offered } // the newest first
	_, err := r.operator.Call(ctx, http.MethodGet, "/v1/sales", nil, &all)
	for _, s := range all.Sales {
		if sku == s.SKU || sku == "" && s.State == "open" && !s.judged() {
			return s, err
		}
	}
	return offered{}, err
}

func (s offered) judged() bool { return strings.HasPrefix(s.Name, client.Judged) }

// untilClosed notes the stock, and ends the crowd when its sale ends.
func (r *run) untilClosed(ctx context.Context, sku string, end func()) {
	for ; ctx.Err() == nil; _ = client.Wait(ctx, time.Second) {
		s, err := r.find(ctx, sku)
		if err == nil {
			r.stock.add(report.StockPoint{At: time.Now(), Available: s.Available})
		}
		if err == nil && (s.SKU == "" || s.State == "closed") {
			end()
		}
	}
}

// arrive lets the buyers in, at random moments. No crowd before had the same names.
func (r *run) arrive(ctx context.Context, s offered, coming *sync.WaitGroup) error {
	rng := rand.New(rand.NewPCG(uint64(r.c.Seed), streamBuyers))
	name := "crowd-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	var latest [lastVisits]client.Buyer
	due := time.Now()
	for n := 0; ; n++ {
		due = due.Add(time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(r.c.Rate)))
		if client.Wait(ctx, time.Until(due)) != nil {
			return nil
		}
		a := attempt{key: fmt.Sprintf("%s-%d", name, n), quantity: 1 + rng.IntN(int(min(2, s.PerBuyerLimit)))}
		a.buyer = latest[rng.IntN(lastVisits)]
		a.fate = r.c.fate(rng.Float64())
		think := time.Duration(rng.Float64() * float64(min(payWithin, time.Duration(s.PaymentWindowS)*time.Second/2)))
		if rng.Float64() >= comeBack || a.buyer.Subject == "" {
			var err error
			if a.buyer, err = r.crowd.signed(a.key, n); err != nil {
				return err
			}
		}
		latest[n%lastVisits] = a.buyer
		coming.Go(func() { r.visit(ctx, a, think) })
	}
}

// visit is one buyer's order, and its payment or cancellation.
func (r *run) visit(ctx context.Context, a attempt, think time.Duration) {
	answer := r.untilKnown(ctx, judge.First, a.buyer, a.key, a.quantity)
	r.progress.add(answer)
	if answer.Announces() && a.fate != leave && client.Wait(ctx, think) == nil {
		r.closeOrder(ctx, a.buyer, answer.Order.ID, a.fate == cancel)
	}
}

func (r *run) turnout() (t Turnout) {
	for _, o := range judge.Outcomes(r.ledger.requests.read()) {
		switch {
		case o.Announced != nil:
			t.Orders++
		case !o.Known():
			t.Failed++
		case o.Requests[len(o.Requests)-1].Code == "sold_out":
			t.SoldOut++
		default:
			t.Refused++
		}
	}
	for _, cl := range r.ledger.closings.read() {
		if cl.Done() && cl.Cancel {
			t.Cancelled++
		} else if cl.Done() {
			t.Paid++
		}
	}
	return t
}
