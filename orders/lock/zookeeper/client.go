package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

// Root is the parent node of all locks.
const Root = "/locks"

// A Client acquires locks in one ZooKeeper ensemble, in one session. Processes are served in
// the order of their requests, and the callers of one process in the order of their calls
// of Acquire. A Client is safe for concurrent use.
type Client struct {
	*lease.Acquirer
	conn   *zk.Conn
	dialer *dialer
	cfg    lease.Config

	trash sync.Map // nodes to delete as soon as possible
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client of the servers, each given as host:port. Its session is established
// and maintained in the background until Close. It requests a timeout of Config.Lease, which
// the ensemble limits, by default to 4 s to 40 s. If the ensemble grants a longer timeout, a
// crashed holder blocks other callers for longer. If it grants a shorter one, all calls
// fail.
//
// Config.Retry is ignored, and an Option cannot change the Lease, because all locks share
// the session. New panics if cfg is invalid.
func New(servers []string, cfg lease.Config) (*Client, error) {
	c := &Client{cfg: cfg.WithDefaults()}
	c.Acquirer = lease.NewAcquirer(lease.NewLeases(store{c}, cfg), c.take)
	c.dialer = &dialer{}
	conn, _, err := zk.Connect(servers, c.cfg.Lease,
		zk.WithDialer(c.dialer.dial), zk.WithLogger(logger{c.cfg.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("connect to ZooKeeper: %w", err)
	}
	c.conn = conn
	return c, nil
}

// Close ends the session, and every lock with it.
func (c *Client) Close() { c.conn.Close() }

// Run implements lease.Locker. It also deletes nodes whose deletion has failed, which would
// otherwise block other callers until the session ends.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { c.sweep(ctx) })
	defer sweeping.Wait()
	defer cancel()
	return c.Acquirer.Run(ctx)
}

// folder returns the parent of a lock's nodes.
func folder(key string) string { return Root + "/" + url.QueryEscape(key) }

// do runs a call of the library, which does not accept a context. If ctx ends first, do
// returns, and the call keeps running until the connection answers or is closed.
func do[T any](ctx context.Context, c *Client, call func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		value, err := call()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		if o.err == nil && c.dialer.granted() < c.cfg.Lease {
			return none, fmt.Errorf("zookeeper: the server grants sessions of %v, shorter than the lease of %v", c.dialer.granted(), c.cfg.Lease)
		}
		return o.value, o.err
	case <-ctx.Done():
		return none, lease.Ended(ctx)
	}
}

// store implements lease.Store. Client does not export these methods. A caller could otherwise
// release a lock without ending its context.
type store struct{ *Client }

// Renew implements lease.Store. It checks that each lock's node exists.
func (c store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	errs := make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		all.Go(func() {
			exists, err := do(ctx, c.Client, func() (bool, error) {
				exists, _, err := c.conn.Exists(l.Token())
				return exists, err
			})
			switch {
			case err != nil:
				errs[i] = err
			case !exists: // the session has ended, or another client has deleted the node
				errs[i] = lease.ErrExpired
			}
		})
	}
	all.Wait()
	return errs
}

// Release implements lease.Store.
func (c store) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	mine := node{folder(l.Key()), name(l.Token())}
	_, err = do(context.WithoutCancel(ctx), c.Client, func() (any, error) { return nil, c.conn.Delete(l.Token(), -1) })
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zk.ErrNoNode):
		_, discarded := c.trash.Load(mine)
		return discarded, lease.ErrExpired
	}
	c.discard(mine)
	return true, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// Remaining implements lease.Locker. ZooKeeper does not report a remaining time, so Remaining
// returns one lease for a held lock.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	left := make([]time.Duration, len(keys))
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			var queue []string
			if queue, errs[i] = c.queue(ctx, folder(key)); len(queue) > 0 {
				left[i] = c.cfg.Lease
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read the remaining time of %d locks: %w", len(keys), err)
	}
	return left, nil
}

// A Fence issues fencing tokens. A token is the number of the transaction that created the lock's
// node. Later holders have greater numbers, which ZooKeeper keeps while a majority of its servers
// keeps its data.
type Fence struct{ *Client }

var _ fence.Issuer = Fence{}

// Raise implements fence.Issuer. It returns lease.ErrExpired if l is no longer held.
func (f Fence) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	stat, err := do(ctx, f.Client, func() (*zk.Stat, error) {
		exists, stat, err := f.conn.Exists(l.Token())
		if err == nil && !exists {
			err = lease.ErrExpired
		}
		return stat, err
	})
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", l.Key(), err)
	}
	return stat.Czxid, nil
}
