package loadtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/loadtest/client"
)

// tellsApart reports a server that takes all buyers for one address and limits it:
// it would refuse most of the attack. Requests of as many addresses as the attack
// has in three seconds, 300 at most, read the sale within a second.
func (r *run) tellsApart(ctx context.Context, rate int) error {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	var limited atomic.Bool
	var asking errgroup.Group
	asking.SetLimit(closers)
	for n := 0; n < min(3*rate, 300) && !limited.Load(); n++ {
		asking.Go(func() error {
			if r.client.Limited(ctx, client.Address(n)) {
				limited.Store(true)
			}
			return nil
		})
	}
	_ = asking.Wait()
	if limited.Load() {
		return fmt.Errorf("%s takes all buyers for one address, and limits it: start the server with --limit-ip off, "+
			"or with --trusted-proxies and the address of this machine as the server sees it, such as 127.0.0.1", r.c.Target)
	}
	return nil
}
