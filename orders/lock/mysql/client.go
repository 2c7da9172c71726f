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

// A Client takes locks on one MySQL server. The server serves processes in the order in
// which they asked; the callers of one process are served in the order in which they
// called Acquire. A Client is safe for concurrent use.
type Client struct {
	*lease.Acquirer
	db     *sql.DB
	cfg    lease.Config
	leases *lease.Leases

	conns sync.Map // session by the lock's token
}

// session is the connection that a lock belongs to. Its number is how others
// can end it.
type session struct {
	*sql.Conn
	id   int64
	turn chan struct{} // full while somebody asks or ends it
}

var _ lease.Locker = (*Client)(nil)

// New returns a Client on db, from which it takes one connection per lock that
// is held and per lock that is waited for: db.SetMaxOpenConns must leave room
// for all of them at once. Config.Lease is rounded up to whole seconds, since
// wait_timeout is; Config.Retry is ignored. It panics on a Config that Validate
// refuses.
func New(db *sql.DB, cfg lease.Config) *Client {
	// The rest goes by the lease, and by that of a call which has its own.
	cfg.Lease = (cfg.WithDefaults().Lease + time.Second - 1).Truncate(time.Second)
	c := &Client{db: db, cfg: cfg.WithDefaults()}
	c.leases = lease.NewLeases(store{c}, cfg)
	c.Acquirer = lease.NewAcquirer(c.leases, c.take)
	return c
}

// forever is the server's own limit, as good as none.
const forever = 365 * 24 * time.Hour

// take asks for the lock on a connection of its own. It asks once without waiting,
// and then waits if the call does.
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
	// The server may be about to give us the lock, on a connection that we no
	// longer have. It will notice by itself, sooner or later; we say so now.
	c.end(s)
	killErr := c.kill(ctx, s.id)
	switch {
	case ctx.Err() != nil && killErr == nil:
		return nil, lease.Ended(ctx) // nothing is left behind
	case ctx.Err() != nil:
		err = errors.Join(lease.Ended(ctx), killErr)
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// hold begins the lease. How long the answer was on its way, nobody knows: the
// connection's silence counts from the end of the question, so one more round
// trip begins it anew at a time that is known.
func (c *Client) hold(ctx context.Context, s session, call *lease.Call) (*lease.Lock, error) {
	token, sent := rand.Text(), time.Now()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	err := s.mine(limited, call.Key)
	if err == nil {
		c.conns.Store(token, s)
		var l *lease.Lock
		if l, err = call.Hold(token, sent); err == nil {
			// Nobody may come to release a lock that was lost.
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

// getLock asks for the lock, for which the server shall wait for so long.
func (s session) getLock(ctx context.Context, key string, wait, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := s.ask(ctx, fmt.Sprintf("SELECT GET_LOCK('%s', %d)", name(key), int(wait.Seconds())))
	return got.Int64 == 1, err
}

// ask puts one question at a time: Run, Extend and Release share the connection, and
// the driver ends one on which a question comes before the last was answered.
func (s session) ask(ctx context.Context, question string) (answer sql.NullInt64, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	err = s.QueryRowContext(ctx, question).Scan(&answer)
	return answer, err
}

// connect opens a connection that the server closes when it is silent for one
// lease.
func (c *Client) connect(ctx context.Context, lasting time.Duration) (session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return session{}, fmt.Errorf("connect: %w", err)
	}
	s := session{Conn: conn, turn: make(chan struct{}, 1)}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", int(math.Ceil(lasting.Seconds()))))
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&s.id)
	}
	if err != nil {
		c.end(s)
		return session{}, fmt.Errorf("connect: %w", err)
	}
	return s, nil
}

// end closes the connection and does not give it back to the pool: its locks
// and its wait_timeout go with it. It waits for its turn: database/sql panics where a
// question begins in the moment in which its connection is closed.
func (c *Client) end(s session) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	_ = s.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.Close()
}

// kill ends a connection from another one.
func (c *Client) kill(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	_, err := c.db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
	if e, is := errors.AsType[*mysql.MySQLError](err); is && e.Number == 1094 {
		return nil // there is no such connection any more
	}
	return err
}

// A store is a Client as its Leases know it. Who holds a lock is not to renew or
// release it by these: the lock's context would not hear of it.
type store struct{ *Client }

// Renew is lease.Store's: a question on each lock's connection.
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

// Release is lease.Store's. The connection ends in any case, and the lock with
// it, at the latest when the server has noticed.
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
		return true, lease.ErrExpired // whether this or the lease did it: the connection is no more
	}
	// No answer. With the connection the lock is gone.
	if err := c.kill(ctx, s.id); err != nil {
		return true, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
	}
	return true, nil
}

// gone reports whether the connection was over before the question was sent: the
// server has ended it, or we have.
func gone(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

// mine asks whether the connection still has the lock.
func (s session) mine(ctx context.Context, key string) error {
	holder, err := s.ask(ctx, fmt.Sprintf("SELECT IS_USED_LOCK('%s')", name(key)))
	switch {
	case gone(err):
		return lease.ErrExpired // and so is the lock that belonged to it
	case err != nil:
		return err
	case !holder.Valid:
		return lease.ErrExpired
	case holder.Int64 != s.id:
		return lease.ErrNotMine
	}
	return nil
}

// Remaining is the Locker's. The server does not tell for how long: one lease.
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
		return nil, fmt.Errorf("remaining time of %d locks: %w", len(keys), err)
	}
	for i := range keys {
		if holders[i].(*sql.NullInt64).Valid {
			left[i] = c.cfg.Lease
		}
	}
	return left, nil
}

// name is the server's name for a lock. The server's own are at most 64
// characters long, and the same in upper and lower case.
func name(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
