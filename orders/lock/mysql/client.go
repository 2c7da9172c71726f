package mysql

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"flashsale/orders/lock/lease"
)

// A Client acquires locks on one MySQL server. Processes are served in the order of their
// requests, and the callers of one process in the order of their calls of Acquire. A Client
// is safe for concurrent use.
type Client struct {
	*lease.Acquirer
	db     *sql.DB
	cfg    lease.Config
	leases *lease.Leases

	conns sync.Map // session by the lock's token
}

// session is the connection that a lock belongs to.
type session struct {
	*sql.Conn
	id   int64         // the connection id, for KILL
	turn chan struct{} // full while a query or the end of the connection is in progress
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client on db. It uses one connection of db for each lock that is held or
// waited for, so db.SetMaxOpenConns must allow for all of them. Config.Lease is rounded up
// to whole seconds, the unit of wait_timeout. Config.Retry is ignored. New panics if cfg is
// invalid.
func New(db *sql.DB, cfg lease.Config) *Client {
	// NewLeases receives cfg without defaults, so that Drift and Timeout follow the lease of
	// a call that sets its own.
	cfg.Lease = (cfg.WithDefaults().Lease + time.Second - 1).Truncate(time.Second)
	c := &Client{db: db, cfg: cfg.WithDefaults()}
	c.leases = lease.NewLeases(store{c}, cfg)
	c.Acquirer = lease.NewAcquirer(c.leases, c.take)
	return c
}

// forever is the server's limit for waits.
const forever = 365 * 24 * time.Hour

// take requests the lock on a new connection: first without waiting, and then, if the call
// waits, with GET_LOCK waiting on the server.
func (c *Client) take(call *lease.Call) (*lease.Lock, error) {
	ctx := cmp.Or(call.Waiting, call.Ctx)
	s, err := c.connect(ctx, call.Lease)
	if err != nil {
		if ctx.Err() != nil {
			return nil, lease.Ended(ctx)
		}
		return nil, err
	}
	got, err := s.getLock(ctx, call.Key, 0, c.cfg.Timeout)
	if err == nil && !got && call.Waiting != nil {
		call.Waits()
		got, err = s.getLock(ctx, call.Key, forever, forever)
	}
	switch {
	case err == nil && got:
		return c.hold(ctx, s, call)
	case err == nil:
		c.end(s)
		return nil, lease.ErrHeld
	}
	// The server may still grant the lock to this connection, and would detect the closed
	// connection only later. KILL ends it now.
	c.end(s)
	killErr := c.kill(ctx, s.id)
	switch {
	case ctx.Err() != nil && killErr == nil:
		return nil, lease.Ended(ctx)
	case ctx.Err() != nil:
		err = errors.Join(lease.Ended(ctx), killErr)
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// hold begins the lease. The server counts the connection's silence from the grant, and the
// time of the grant is unknown. One more query restarts the count at a known time.
func (c *Client) hold(ctx context.Context, s session, call *lease.Call) (*lease.Lock, error) {
	token, sent := rand.Text(), time.Now()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	err := s.mine(limited, call.Key)
	if err == nil {
		c.conns.Store(token, s)
		var l *lease.Lock
		if l, err = call.Hold(token, sent); err == nil {
			// The program may never release a lost lock.
			context.AfterFunc(l.Context(), func() {
				if errors.Is(context.Cause(l.Context()), lease.ErrLost) {
					c.end(s)
				}
			})
			return l, nil
		}
		c.conns.Delete(token)
	}
	c.end(s)
	if errors.Is(err, lease.ErrStopped) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// getLock requests the lock; the server waits for it up to wait.
func (s session) getLock(ctx context.Context, key string, wait, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := s.ask(ctx, fmt.Sprintf("SELECT GET_LOCK('%s', %d)", name(key), int(wait.Seconds())))
	return got.Int64 == 1, err
}

// ask sends one query at a time. Run, Extend and Release share the connection, and the
// driver closes a connection that receives a query before the answer to the last one.
func (s session) ask(ctx context.Context, query string) (answer sql.NullInt64, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	err = s.QueryRowContext(ctx, query).Scan(&answer)
	return answer, err
}

// connect opens a connection that the server closes after a silence of one lease.
func (c *Client) connect(ctx context.Context, lasting time.Duration) (session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return session{}, fmt.Errorf("connect to MySQL: %w", err)
	}
	s := session{Conn: conn, turn: make(chan struct{}, 1)}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", int(math.Ceil(lasting.Seconds()))))
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&s.id)
	}
	if err != nil {
		c.end(s)
		return session{}, fmt.Errorf("connect to MySQL: %w", err)
	}
	return s, nil
}

// end closes the connection, with its locks and its wait_timeout, instead of returning it to
// the pool. It waits for its turn, because database/sql panics if a query begins while the
// connection is being closed.
func (c *Client) end(s session) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	_ = s.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.Close()
}

// kill ends the connection with the given id, from another connection.
func (c *Client) kill(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	_, err := c.db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == 1094 {
		return nil // the connection has already ended
	}
	return err
}

// store implements lease.Store. Its methods are not part of Client, because a caller that
// used them directly would not affect the lock's context.
type store struct{ *Client }

// Renew implements lease.Store. It sends a query on each lock's connection.
func (c store) Renew(ctx context.Context, locks []*lease.Lock) []error {
	errs := make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		if s, ok := c.conns.Load(l.Token()); ok {
			all.Go(func() { errs[i] = s.(session).mine(ctx, l.Key()) })
		} else {
			errs[i] = lease.ErrExpired
		}
	}
	all.Wait()
	return errs
}

// Release implements lease.Store. It always closes the connection, which frees the lock at
// the latest when the server detects the closed connection.
func (c store) Release(ctx context.Context, l *lease.Lock) (doubt bool, err error) {
	value, ok := c.conns.LoadAndDelete(l.Token())
	if !ok {
		return false, lease.ErrExpired
	}
	s := value.(session)
	defer c.end(s)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	released, err := s.ask(ctx, fmt.Sprintf("SELECT RELEASE_LOCK('%s')", name(l.Key())))
	switch {
	case err == nil && released.Int64 == 1 && released.Valid:
		return false, nil
	case err == nil && released.Valid:
		return false, lease.ErrNotMine
	case err == nil || gone(err):
		return true, lease.ErrExpired // the connection has ended, by this call or with the lease
	}
	// There is no answer. Killing the connection frees the lock.
	if err := c.kill(ctx, s.id); err != nil {
		return true, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
	}
	return true, nil
}

// gone reports whether the connection had ended before the query was sent.
func gone(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// mine returns nil if the connection still has the lock.
func (s session) mine(ctx context.Context, key string) error {
	holder, err := s.ask(ctx, fmt.Sprintf("SELECT IS_USED_LOCK('%s')", name(key)))
	switch {
	case gone(err):
		return lease.ErrExpired // the lock has ended with the connection
	case err != nil:
		return err
	case !holder.Valid:
		return lease.ErrExpired
	case holder.Int64 != s.id:
		return lease.ErrNotMine
	}
	return nil
}

// Remaining implements lease.Locker. The server does not report a remaining time, so Remaining
// returns one lease for a held lock.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	left := make([]time.Duration, len(keys))
	columns, holders := make([]string, len(keys)), make([]any, len(keys))
	for i, key := range keys {
		columns[i] = fmt.Sprintf("IS_USED_LOCK('%s')", name(key))
		holders[i] = new(sql.NullInt64)
	}
	err := c.db.QueryRowContext(ctx, "SELECT "+strings.Join(columns, ", ")).Scan(holders...)
	if err != nil {
		return nil, fmt.Errorf("read the remaining time of %d locks: %w", len(keys), err)
	}
	for i := range keys {
		if holders[i].(*sql.NullInt64).Valid {
			left[i] = c.cfg.Lease
		}
	}
	return left, nil
}

// name returns the lock's name on the server: a hash, because the server limits names to 64
// characters and ignores their case.
func name(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
