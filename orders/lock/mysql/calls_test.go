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

// A lock that is extended while Run renews it is not lost: their questions go over
// one connection.
func TestExtendBesideRun(t *testing.T) {
	db, ctx := open(t, servertest.OpenSQL(t, servers.KindReal), ""), t.Context()
	locks := New(db, lease.Config{Lease: 30 * time.Second, Timeout: 20 * time.Second})
	l, err := locks.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if err := l.Extend(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if l.Context().Err() != nil {
		t.Error(context.Cause(l.Context()))
	}
	check.Must(t, l.Release(ctx))
}

// A lock may be lost, and its connection ended, while Run or Release begins a question.
// database/sql panics then, once in some thousand times, unless they take turns.
func TestEndBesideAQuestion(t *testing.T) {
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

// mute is a driver whose connections answer nothing.
type mute struct{}

func (mute) Connect(context.Context) (driver.Conn, error) { return mute{}, nil }
func (mute) Driver() driver.Driver                        { return nil }
func (mute) Prepare(string) (driver.Stmt, error)          { return nil, io.EOF }
func (mute) Begin() (driver.Tx, error)                    { return nil, io.EOF }
func (mute) Close() error                                 { return nil }

// What was left out of the Config goes by the lease of each call.
func TestLeaseOfACall(t *testing.T) {
	locks := New(open(t, "root@tcp(127.0.0.1:1)/", ""), lease.Config{})
	for _, lasting := range []time.Duration{time.Second, time.Minute} {
		_, err := locks.leases.TryAcquire(t.Context(), "k", []lease.Option{func(c *lease.Config) { c.Lease = lasting }}, func(c *lease.Call) (*lease.Lock, error) {
			if c.Drift != lasting/20 || c.Timeout != min(lasting/5, time.Second) {
				t.Errorf("a lease of %v with a drift of %v and a timeout of %v", lasting, c.Drift, c.Timeout)
			}
			return nil, lease.ErrHeld
		})
		if !errors.Is(err, lease.ErrHeld) {
			t.Error(err)
		}
	}
}
