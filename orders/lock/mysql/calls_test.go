package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// Concurrent calls of Extend share one connection and do not lose the lock.
func TestConcurrentExtendKeepsLock(t *testing.T) {
	db, ctx := open(t, servertest.OpenSQL(t, servers.KindReal), ""), t.Context()
	locks := New(db, lease.Config{Lease: 30 * time.Second, Timeout: 20 * time.Second})
	l, err := locks.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if err := l.Extend(ctx); err != nil {
					t.Errorf("extend the lock: got error %v, want none", err)
					return
				}
			}
		})
	}
	all.Wait()
	if l.Context().Err() != nil {
		t.Errorf("extended lock: got it lost with cause %v, want it held", context.Cause(l.Context()))
	}
	check.Must(t, l.Release(ctx))
}

// A lock may be lost, and its connection closed, while Run or Release begins a query. If the
// query and the close did not take turns, database/sql would panic once in a few thousand
// attempts.
func TestEndDuringQuery(t *testing.T) {
	db, ctx := sql.OpenDB(mute{}), t.Context()
	defer func() { _ = db.Close() }()
	locks := New(db, lease.Config{})
	for range 20_000 {
		conn, err := db.Conn(ctx)
		check.Must(t, err)
		s := session{Conn: conn, turn: make(chan struct{}, 1)}
		var both sync.WaitGroup
		both.Go(func() { _, _ = s.ask(ctx, "SELECT 1") })
		both.Go(func() { locks.end(s) })
		both.Wait()
	}
}

// mute is a driver whose connections do not answer.
type mute struct{}

func (mute) Connect(context.Context) (driver.Conn, error) { return mute{}, nil }
func (mute) Driver() driver.Driver                        { return nil }
func (mute) Prepare(string) (driver.Stmt, error)          { return nil, io.EOF }
func (mute) Begin() (driver.Tx, error)                    { return nil, io.EOF }
func (mute) Close() error                                 { return nil }

// The defaults of Drift and Timeout follow the lease of the call.
func TestDefaultsFollowLeaseOfCall(t *testing.T) {
	locks := New(open(t, "root@tcp(127.0.0.1:1)/", ""), lease.Config{})
	for _, lasting := range []time.Duration{time.Second, time.Minute} {
		_, err := locks.leases.TryAcquire(t.Context(), "k", []lease.Option{func(c *lease.Config) { c.Lease = lasting }}, func(c *lease.Call) (*lease.Lock, error) {
			if c.Drift != lasting/20 || c.Timeout != min(lasting/5, time.Second) {
				t.Errorf("lease %v: got drift %v and timeout %v, want %v and %v", lasting, c.Drift, c.Timeout, lasting/20, min(lasting/5, time.Second))
			}
			return nil, lease.ErrHeld
		})
		if !errors.Is(err, lease.ErrHeld) {
			t.Errorf("acquire a held lock: got error %v, want ErrHeld", err)
		}
	}
}
