package lock

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// A Client takes locks in one Redis: a server, a Cluster, or a master that
// Sentinel watches. It starts no goroutine of its own: without Run its locks are
// good for one lease, and its waiters hear of no release.
//
// A Client is safe for concurrent use.
type Client struct {
	store  *onredis.Store
	leases *lease.Leases
	waits  *waits
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client on rdb. It panics on a Config that Validate refuses.
func New(rdb redis.UniversalClient, cfg lease.Config) *Client {
	store := onredis.New(rdb, cfg)
	return &Client{store, lease.NewLeases(store, cfg), newWaits(rdb, rand.Text())}
}

// Run renews every lock that the client holds at a third of its lease, in
// pipelines, and listens on one connection for locks that are handed to it,
// until ctx ends. It is one loop and one listener however many locks there are.
// It returns nil, or an error if it has been called before.
//
// When it returns, every lock that is still held is lost: their contexts end
// with ErrStopped as the reason, waiters get ErrStopped, and nothing more can be
// acquired. What was not released stays taken until its lease ends, so a program
// that stops releases its locks first.
func (c *Client) Run(ctx context.Context) error {
	listening, stop := make(chan struct{}), context.CancelFunc(nil)
	ctx, stop = context.WithCancel(ctx)
	defer func() { stop(); <-listening }()
	go func() {
		defer close(listening)
		c.waits.listen(ctx, c.leases.Logger)
	}()
	return c.leases.Run(ctx)
}

// Remaining is the Locker's, in one round trip.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.store.Remaining(ctx, keys...)
}
