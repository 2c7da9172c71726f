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

// crowd has the buyers, with signed tokens.
type crowd struct {
	token  func(string, bool) (string, error)
	buyers []client.Buyer // the attack's, from sign
	newer  atomic.Int64   // fresh ones so far
	known  sync.Map       // subject → buyer, to act for a record's buyer later
}

func newCrowd(token func(string, bool) (string, error)) *crowd { return &crowd{token: token} }

// sign makes the attack's n buyers, on all processors. A signature takes
// microseconds: too long to sign during an attack.
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
	n := int(c.newer.Add(1))
	return c.signed(fmt.Sprintf("fresh-%06d", n), maxBuyers+n)
}

// named returns the buyer of a record.
func (c *crowd) named(subject string) client.Buyer {
	b, _ := c.known.Load(subject)
	return b.(client.Buyer)
}

// Random streams of the seed, besides those of the sales' plans. Drawing from one
// does not change the others.
const (
	streamSales  = 1 << 32
	streamBuyers = 1<<32 + 1
)

// arrivals says which buyer orders next.
type arrivals struct {
	crowd []client.Buyer

	mu   sync.Mutex
	seen int        // so far
	zipf *rand.Zipf // nil: in turn
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
