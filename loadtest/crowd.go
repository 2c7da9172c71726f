package loadtest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/client"
)

// crowd contains the buyers with their signed tokens.
type crowd struct {
	token      func(string, bool) (string, error)
	buyers     []client.Buyer // buyers of the attack, set by sign
	freshCount atomic.Int64   // number of fresh buyers
	known      sync.Map       // subject → buyer
}

func newCrowd(token func(string, bool) (string, error)) *crowd { return &crowd{token: token} }

// sign creates the n buyers of the attack on all processors. Signing takes microseconds
// per token, which would delay requests during the attack.
func (c *crowd) sign(n int) error {
	c.buyers = make([]client.Buyer, n)
	var signing errgroup.Group
	signing.SetLimit(runtime.GOMAXPROCS(0))
	for i := range c.buyers {
		signing.Go(func() (err error) {
			c.buyers[i], err = c.signed(fmt.Sprintf("buyer-%06d", i), i)
			return err
		})
	}
	return signing.Wait()
}

func (c *crowd) signed(subject string, n int) (client.Buyer, error) {
	token, err := c.token(subject, false)
	if err != nil {
		return client.Buyer{}, fmt.Errorf("loadtest: sign a token for %s: %w", subject, err)
	}
	b := client.Buyer{Subject: subject, Token: token, IP: client.Address(n)}
	c.known.Store(subject, b)
	return b, nil
}

// fresh returns a new buyer.
func (c *crowd) fresh() (client.Buyer, error) {
	n := int(c.freshCount.Add(1))
	return c.signed(fmt.Sprintf("fresh-%06d", n), maxBuyers+n)
}

// named returns the buyer with this subject.
func (c *crowd) named(subject string) client.Buyer {
	b, _ := c.known.Load(subject)
	return b.(client.Buyer)
}

// Random streams of the seed for the choice of sales and buyers. A plan uses the number
// of its sale as its stream. Draws from one stream do not affect another stream.
const (
	streamSales  = 1 << 32
	streamBuyers = 1<<32 + 1
)

// arrivals decides which buyer orders next.
type arrivals struct {
	crowd []client.Buyer

	mu   sync.Mutex
	seen int        // number of draws
	zipf *rand.Zipf // nil: buyers take turns
}

func newArrivals(c Config, crowd []client.Buyer) *arrivals {
	a := &arrivals{crowd: crowd}
	if c.Zipf > 0 {
		a.zipf = rand.NewZipf(rand.New(rand.NewPCG(uint64(c.Seed), streamBuyers)), c.Zipf, 1, uint64(len(crowd)-1))
	}
	return a
}

func (a *arrivals) next() client.Buyer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.zipf != nil {
		return a.crowd[a.zipf.Uint64()]
	}
	b := a.crowd[a.seen%len(a.crowd)]
	a.seen++
	return b
}
