package lock

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// A Client takes locks in one Redis: a server, a Cluster, or a master that
// Sentinel watches. Run must go on beside it. Without Run a lock ends after one
// lease unless Lock.Extend renews it, and Acquire fails with ErrNotRunning.
//
// A Client is safe for concurrent use. One per process is enough.
type Client struct {
	store  *onredis.Store
	leases *lease.Leases
	waits  *waits
}

var _ Locker = (*Client)(nil)

// New returns a Client on rdb. It panics on a Config that Validate refuses.
func New(rdb redis.UniversalClient, cfg Config) *Client {
	store := onredis.New(rdb, cfg)
	return &Client{store, lease.NewLeases(store, cfg), newWaits(rdb, rand.Text())}
}

// Run renews every lock that the client holds, at a third of its lease, and
// listens for locks that are handed to the client, until ctx ends. It is one loop
// and one connection however many locks there are. It returns nil, or an error if
// it has been called before.
//
// When Run returns, every lock that is still held is lost: its context ends with
// ErrStopped as the reason. Waiters get ErrStopped, and nothing more can be
// acquired. In Redis such a lock stays taken until its lease ends, so a program
// that stops releases its locks first.
func (c *Client) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { c.waits.listen(ctx, c.leases.Logger) })
	defer listening.Wait()
	defer stop()
	return c.leases.Run(ctx)
}

// Observe tells who holds the lock now; the zero Holder is nobody. A holder that was
// acquired with a Config.Note shows the note, and since when it holds the lock. To see
// changes, call Observe again.
func (c *Client) Observe(ctx context.Context, key string) (lease.Holder, error) {
	return c.store.Observe(ctx, key)
}

// Remaining tells how long each lock is still taken, as Locker says, in one round trip.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.store.Remaining(ctx, keys...)
}
