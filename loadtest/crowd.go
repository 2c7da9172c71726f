package loadtest

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
)

// buyer is one caller: a name, a token, and an address of its own. The
// address is only ever a header; a server believes it if the load test comes
// from one of its trusted proxies, and its limiter per address then sees
// buyers instead of one flood.
type buyer struct{ subject, token, ip string }

// sign puts the caller's identity on a request.
func (b buyer) sign(h http.Header) {
	h.Set("Authorization", "Bearer "+b.token)
	if b.ip != "" {
		h.Set("X-Forwarded-For", b.ip)
	}
}

// address is the n-th address of 10.0.0.0/8, from 10.0.0.1 on.
func address(n int) string {
	n++
	return fmt.Sprintf("10.%d.%d.%d", n>>16&0xff, n>>8&0xff, n&0xff)
}

// crowd hands out buyers with signed tokens.
type crowd struct {
	token  func(string, bool) (string, error)
	buyers []buyer      // the attack's, from sign
	newer  atomic.Int64 // fresh ones so far
	known  sync.Map     // subject → buyer, to act for a record's buyer later
}

func newCrowd(token func(string, bool) (string, error)) *crowd { return &crowd{token: token} }

// sign makes the attack's n buyers, on all processors: a signature costs
// microseconds, which an attack at tens of thousands per second does not have.
func (c *crowd) sign(n int) error {
	c.buyers = make([]buyer, n)
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		fault atomic.Pointer[error]
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for fault.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				b, err := c.signed(fmt.Sprintf("buyer-%06d", i), i)
				if err != nil {
					fault.Store(&err)
					return
				}
				c.buyers[i] = b
			}
		})
	}
	wg.Wait()
	if err := fault.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *crowd) signed(subject string, n int) (buyer, error) {
	token, err := c.token(subject, false)
	if err != nil {
		return buyer{}, fmt.Errorf("loadtest: sign a token for %s: %w", subject, err)
	}
	b := buyer{subject, token, address(n)}
	c.known.Store(subject, b)
	return b, nil
}

// fresh returns a buyer nobody has seen.
func (c *crowd) fresh() (buyer, error) {
	n := int(c.newer.Add(1))
	return c.signed(fmt.Sprintf("fresh-%06d", n), maxBuyers+n)
}

// named returns the buyer of a record.
func (c *crowd) named(subject string) buyer {
	b, _ := c.known.Load(subject)
	return b.(buyer)
}
