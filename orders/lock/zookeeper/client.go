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

// Root is the node under which all locks are.
const Root = "/locks"

// A Client takes locks in one ZooKeeper ensemble, under one session. Processes are
// served in the order in which they asked; the callers of one process are served in the
// order in which they called Acquire. A Client is safe for concurrent use.
type Client struct {
	*lease.Acquirer
	conn   *zk.Conn
	dialer *dialer
	cfg    lease.Config

	trash sync.Map // each node that is to be removed as soon as possible
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client of the servers, host:port each. Its session, which is
// established and kept up in the background until Close, asks for a timeout of
// Config.Lease. The ensemble has bounds for it: by default 4 s to 40 s. A session
// that it makes longer only means that a dead holder blocks the others for
// longer; one that it makes shorter is refused by all calls.
//
// Config.Retry is ignored, and no call can have a Lease of its own: it is the session's.
// New panics on a Config that Validate refuses.
func New(servers []string, cfg lease.Config) (*Client, error) {
	c := &Client{cfg: cfg.WithDefaults()}
	c.Acquirer = lease.NewAcquirer(lease.NewLeases(store{c}, cfg), c.take)
	c.dialer = &dialer{}
	conn, _, err := zk.Connect(servers, c.cfg.Lease,
		zk.WithDialer(c.dialer.dial), zk.WithLogger(logger{c.cfg.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	c.conn = conn
	return c, nil
}

// Close ends the session, and every lock with it.
func (c *Client) Close() { c.conn.Close() }

// Run is the Locker's. It also removes what could not be removed when it should
// have been, because the server was away: a session that lives on keeps it.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var sweeping sync.WaitGroup
	sweeping.Go(func() { c.sweep(ctx) })
	defer sweeping.Wait()
	defer cancel()
	return c.Acquirer.Run(ctx)
}

// folder is the node under which those of one lock are.
func folder(key string) string { return Root + "/" + url.QueryEscape(key) }

// do runs a call of the library, which knows no context: when ctx ends first,
// the call goes on until the connection has an answer or is closed.
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
			return none, fmt.Errorf("zookeeper: sessions of %v at most, want a lease of %v", c.dialer.granted(), c.cfg.Lease)
		}
		return o.value, o.err
	case <-ctx.Done():
		return none, lease.Ended(ctx)
	}
}

// A store is a Client as its Leases know it. Who holds a lock is not to renew or
// release it by these: the lock's context would not hear of it.
type store struct{ *Client }

// Renew is lease.Store's: it asks after each lock's node.
func (c store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	errs := make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		all.Go(func() {
			there, err := do(ctx, c.Client, func() (bool, error) {
				there, _, err := c.conn.Exists(l.Token())
				return there, err
			})
			switch {
			case err != nil:
				errs[i] = err
			case !there: // the session has ended meanwhile, or somebody removed it
				errs[i] = lease.ErrExpired
			}
		})
	}
	all.Wait()
	return errs
}

// Release is lease.Store's.
func (c store) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	mine := node{folder(l.Key()), name(l.Token())}
	_, err = do(context.WithoutCancel(ctx), c.Client, func() (any, error) { return nil, c.conn.Delete(l.Token(), -1) })
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, zk.ErrNoNode):
		_, thrown := c.trash.Load(mine)
		return thrown, lease.ErrExpired
	}
	c.throw(mine)
	return true, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// Remaining is the Locker's. ZooKeeper does not tell for how long: one lease.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	left := make([]time.Duration, len(keys))
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			var line []string
			if line, errs[i] = c.line(ctx, folder(key)); len(line) > 0 {
				left[i] = c.cfg.Lease
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("remaining time of %d locks: %w", len(keys), err)
	}
	return left, nil
}

// A Fence issues the transaction number of a lock's node as fencing token: later
// holders have greater ones, and ZooKeeper's majority does not forget them.
type Fence struct{ *Client }

var _ fence.Issuer = Fence{}

// Raise is the Fence's. It returns ErrExpired when l is no longer held.
func (f Fence) Raise(ctx context.Context, l *lease.Lock) (int64, error) {
	stat, err := do(ctx, f.Client, func() (*zk.Stat, error) {
		there, stat, err := f.conn.Exists(l.Token())
		if err == nil && !there {
			err = lease.ErrExpired
		}
		return stat, err
	})
	if err != nil {
		return 0, fmt.Errorf("raise fence of %q: %w", l.Key(), err)
	}
	return stat.Czxid, nil
}
