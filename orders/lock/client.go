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

// A Client acquires locks in one Redis: a single server, a Cluster, or a master that
// Sentinel monitors. The program must keep Run running. Without Run, a lock ends after
// one lease unless Lock.Extend renews it, and Acquire returns ErrNotRunning.
//
// A Client is safe for concurrent use. One Client per process is enough.
type Client struct {
	store  *onredis.Store
	leases *lease.Leases
	waits  *waits
}

var _ Locker = (*Client)(nil)

// New returns a Client that keeps its locks in rdb. It panics if cfg is invalid.
func New(rdb redis.UniversalClient, cfg Config) *Client {
	store := onredis.New(rdb, cfg)
	return &Client{store, lease.NewLeases(store, cfg), newWaits(rdb, cfg.Prefix+"lock-client:"+rand.Text())}
}

// Run renews every lock of the client at a third of its lease, and receives the
// messages that hand locks to waiting callers, until ctx ends. It needs one loop and one
// connection, whatever the number of locks. It returns nil, or an error if it has been
// called before.
//
// When Run returns, every lock that is still held is lost: its context ends with
// ErrStopped as the reason. Waiting and later calls return ErrStopped. Redis keeps these
// locks until their leases end, so a program should release its locks before it stops.
func (c *Client) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { c.waits.listen(ctx, c.leases.Logger) })
	defer listening.Wait()
	defer stop()
	return c.leases.Run(ctx)
}

// Observe returns the current holder of the lock, or the zero Holder if the lock is free.
// Holder.Note and Holder.Since are set only if the holder acquired the lock with a
// Config.Note.
func (c *Client) Observe(ctx context.Context, key string) (lease.Holder, error) {
	return c.store.Observe(ctx, key)
}

// Remaining implements Locker, in one round trip.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.store.Remaining(ctx, keys...)
}
