// Package gentle simulates a crowd of buyers for demonstrations. It judges nothing. Buyers arrive
// one by one and order; most pay after a while, some cancel, and some order again. After a 429 or
// 503 they wait for Retry-After.
package gentle

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// Rate and Duration are the defaults of Config.Rate and Config.Duration.
const (
	Rate     = 30
	Duration = 5 * time.Minute
)

// MaxRate is the maximum of Config.Rate. For higher rates use the load test.
const MaxRate = 1000

const (
	pays     = 0.7              // share of orders that are paid
	cancels  = 0.15             // share of orders that are cancelled; orders neither paid nor cancelled expire
	comeBack = 0.2              // share of visits after which the buyer orders again
	thinks   = 20 * time.Second // maximum time before a buyer pays, cancels or orders again
)

// Config contains the settings of a crowd.
type Config struct {
	Target   string                                           // base URL of the server
	Token    func(subject string, admin bool) (string, error) // signs a bearer token for a buyer
	SKU      string                                           // empty for the newest open sale
	Rate     int                                              // orders per second, 1 to MaxRate
	Duration time.Duration                                    // time from the opening of the sale
	Seed     int64                                            // determines each buyer's actions, but not their interleaving
	Progress io.Writer                                        // receives a line every five seconds
	calls    http.RoundTripper                                // nil for the network
}

// Turnout counts the answers to orders. Failed counts orders whose buyer left without a final
// answer.
type Turnout struct{ Orders, SoldOut, Refused, Failed atomic.Int64 }

func (t *Turnout) String() string {
	return fmt.Sprintf("%d orders, %d sold out, %d refused, %d failed", t.Orders.Load(), t.SoldOut.Load(), t.Refused.Load(), t.Failed.Load())
}

// crowd is a running crowd.
type crowd struct {
	Config
	Turnout
	shop client.Operator // authenticates as a buyer
	sale client.Offer
}

func judged(s client.Offer) bool { return strings.HasPrefix(s.Name, client.JudgedNamePrefix) }

// Run waits until the sale opens and then sends buyers to it, until the duration is over, the sale
// is closed, or ctx ends. Run returns after the last buyer has left. It returns an error if there
// is no open sale, if a load test judges the sale, or if a token is rejected.
func Run(ctx context.Context, cfg Config) (*Turnout, error) {
	if cfg.Rate < 1 || cfg.Rate > MaxRate || cfg.Duration <= 0 {
		return nil, fmt.Errorf("crowd: rate %d for %v: want 1 to %d orders per second, for some time", cfg.Rate, cfg.Duration, MaxRate)
	}
	token, err := cfg.Token("crowd", false)
	if err != nil {
		return nil, fmt.Errorf("crowd: sign a token: %w", err)
	}
	conns := client.NewHTTP(256, 10*time.Second)
	defer conns.CloseIdleConnections()
	if cfg.calls != nil {
		conns.Transport = cfg.calls
	}
	c := &crowd{Config: cfg, shop: client.NewOperator(client.New(cfg.Target, cfg.SKU, conns), token)}
	s, err := c.find(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("crowd: %w", err)
	case s.SKU == "" || s.State == "closed":
		return nil, fmt.Errorf("crowd: %s at %s (flashsale sale show lists all)", strings.TrimPrefix(c.SKU+": no open sale", ": "), c.Target)
	case judged(s):
		return nil, fmt.Errorf("crowd: a load test judges %s and counts orders of other buyers as violations: choose another sale", s.SKU)
	}
	// A rejected token ends the run. Other errors may be temporary, and buyers retry.
	if _, err := c.shop.Call(ctx, http.MethodGet, "/v1/orders?limit=1", nil, nil); client.StatusOf(err) == http.StatusUnauthorized {
		return nil, fmt.Errorf("crowd: %w", err)
	}
	c.SKU, c.sale, c.shop.Client = s.SKU, s, client.New(cfg.Target, s.SKU, conns)
	fmt.Fprintf(c.Progress, "crowd: %d orders per second for %s, for %v\n", c.Rate, c.SKU, c.Duration)
	_ = client.Wait(ctx, time.Until(s.OpensAt)) // the error is ignored: if ctx has ended, arrive sends no buyer

	ctx, end := context.WithTimeout(ctx, c.Duration)
	defer end()
	coming, ctx := errgroup.WithContext(ctx)
	coming.Go(func() error { c.watch(ctx, end); return nil })
	coming.Go(func() error { return c.arrive(ctx, coming) })
	return &c.Turnout, coming.Wait()
}

// find returns the sale of c.SKU or, if c.SKU is empty, the newest open sale that is not judged.
// If no sale matches, find returns the zero Offer.
func (c *crowd) find(ctx context.Context) (client.Offer, error) {
	var all struct{ Sales []client.Offer } // newest first
	_, err := c.shop.Call(ctx, http.MethodGet, "/v1/sales", nil, &all)
	for _, s := range all.Sales {
		if c.SKU == s.SKU || c.SKU == "" && s.State == "open" && !judged(s) {
			return s, err
		}
	}
	return client.Offer{}, err
}

// watch writes the progress, and ends the crowd when the sale is closed.
func (c *crowd) watch(ctx context.Context, end func()) {
	for n := 1; client.Wait(ctx, time.Second) == nil; n++ {
		s, err := c.find(ctx)
		if err == nil && (s.SKU == "" || s.State == "closed") {
			end()
		}
		if err == nil && n%5 == 0 {
			fmt.Fprintf(c.Progress, "crowd: %v, %d left\n", &c.Turnout, s.Available)
		}
	}
}

// arrive starts buyers at random times. Their names are unique among all crowds.
func (c *crowd) arrive(ctx context.Context, coming *errgroup.Group) (err error) {
	rng := rand.New(rand.NewPCG(uint64(c.Seed), 0))
	name := "crowd-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	due := time.Now()
	for n := 1; ; n++ {
		due = due.Add(time.Duration(rng.ExpFloat64() / (1 - comeBack) / float64(c.Rate) * float64(time.Second)))
		if client.Wait(ctx, time.Until(due)) != nil {
			return nil
		}
		b := client.Buyer{Subject: fmt.Sprintf("%s-%d", name, n), IP: client.Address(n)}
		if b.Token, err = c.Token(b.Subject, false); err != nil {
			return fmt.Errorf("crowd: sign a token for %s: %w", b.Subject, err)
		}
		coming.Go(func() error { c.come(ctx, b, rand.New(rand.NewPCG(uint64(c.Seed), uint64(n)))); return nil })
	}
}

// come runs the visits of one buyer.
func (c *crowd) come(ctx context.Context, b client.Buyer, rng *rand.Rand) {
	longest := min(thinks, time.Duration(c.sale.PaymentWindowS)*time.Second/2)
	think := func() error { return client.Wait(ctx, time.Duration(rng.Int64N(int64(longest)+1))) }
	for n := 1; ; n++ {
		order := c.order(ctx, b, fmt.Sprintf("%s-%d", b.Subject, n), 1+rng.IntN(int(max(1, min(2, c.sale.UnitsPerBuyer)))))
		fate := rng.Float64()
		if order != nil && fate < pays+cancels && think() == nil {
			c.close(ctx, b, order.ID, fate >= pays)
		}
		if rng.Float64() >= comeBack || think() != nil {
			return
		}
	}
}

// order sends an order under one key until the answer is final. After a 202, the same key also
// returns the decision. order returns nil if the order is refused or ctx ends.
func (c *crowd) order(ctx context.Context, b client.Buyer, key string, quantity int) *judge.Order {
	for {
		// A request that was sent is completed even if ctx ends.
		r := c.shop.Order(context.WithoutCancel(ctx), judge.First, b, key, quantity)
		switch {
		case r.Announces():
			c.Orders.Add(1)
			return r.Order
		case r.Code == "sold_out":
			c.SoldOut.Add(1)
		case r.Refuses() && !r.Limited():
			c.Refused.Add(1)
		case retry(ctx, r.Answer) == nil:
			continue
		default:
			c.Failed.Add(1)
		}
		return nil
	}
}

// close cancels or pays an order.
func (c *crowd) close(ctx context.Context, b client.Buyer, id string, cancel bool) {
	for {
		r := c.shop.Close(context.WithoutCancel(ctx), b, id, cancel, "ref-"+id)
		if r.Done() || r.Refuses() || retry(ctx, r.Answer) != nil {
			return
		}
	}
}

// retry waits until the request may be repeated.
func retry(ctx context.Context, a judge.Answer) error {
	return client.Wait(ctx, max(a.RetryAfter, time.Second/2))
}
