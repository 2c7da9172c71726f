package orders

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"flashsale/inventory"
)

// Faults wrap the real stores. A fault strikes before a step, so that nothing
// of it happens, or after it, so that all of it has and only the answer is lost.

var errFault = errors.New("fault")

type fault struct {
	step  string // "settle", "commit", …
	after bool
}

func (f fault) String() string {
	if f.after {
		return "after " + f.step
	}
	return "before " + f.step
}

// A plan of faults: it is asked at each step, and what it returns happens.
type plan func(fault) error

// once strikes the first time that f comes by, and tells that it has.
func once(f fault) (plan, *atomic.Bool) {
	struck := new(atomic.Bool)
	return func(at fault) error {
		if at == f && struck.CompareAndSwap(false, true) {
			return errFault
		}
		return nil
	}, struck
}

// fromThenOn is what a node that dies at f can still do: nothing.
func fromThenOn(f fault) (plan, *atomic.Bool) {
	dead := new(atomic.Bool)
	return func(at fault) error {
		if at == f {
			dead.Store(true)
		}
		if dead.Load() {
			return errFault
		}
		return nil
	}, dead
}

func (p plan) around(step string, do func() error) error {
	if err := p(fault{step: step}); err != nil {
		return err
	}
	err := do()
	if lost := p(fault{step: step, after: true}); lost != nil {
		return lost
	}
	return err
}

// faultyGate is a gate whose keeper's steps fail as planned.
type faultyGate struct {
	Gate
	plan plan
}

func (g faultyGate) Queue(ctx context.Context, sku, after string, limit int64) (q []inventory.Queued, err error) {
	err = g.plan.around("queue", func() (err error) { q, err = g.Gate.Queue(ctx, sku, after, limit); return err })
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (g faultyGate) Settle(ctx context.Context, sku string, fence int64, orders []inventory.Settled) error {
	return g.plan.around("settle", func() error { return g.Gate.Settle(ctx, sku, fence, orders) })
}

func (g faultyGate) Release(ctx context.Context, sku string, m inventory.Mandate, ids []string) (n int64, err error) {
	err = g.plan.around("release", func() (err error) { n, err = g.Gate.Release(ctx, sku, m, ids); return err })
	return n, err
}

func (g faultyGate) Confirm(ctx context.Context, sku string, m inventory.Mandate, ids []string) error {
	return g.plan.around("confirm", func() error { return g.Gate.Confirm(ctx, sku, m, ids) })
}

func (g faultyGate) SetTerms(ctx context.Context, sku string, m inventory.Mandate, terms inventory.Terms) error {
	return g.plan.around("terms", func() error { return g.Gate.SetTerms(ctx, sku, m, terms) })
}

func (g faultyGate) Shut(ctx context.Context, sku string, m inventory.Mandate) error {
	return g.plan.around("shut", func() error { return g.Gate.Shut(ctx, sku, m) })
}

func (g faultyGate) Stage(ctx context.Context, d *inventory.Draft, c inventory.Changes) error {
	return g.plan.around("stage", func() error { return g.Gate.Stage(ctx, d, c) })
}

func (g faultyGate) Install(ctx context.Context, d *inventory.Draft, epoch int64, s inventory.Stock) (ok bool, err error) {
	err = g.plan.around("install", func() (err error) { ok, err = g.Gate.Install(ctx, d, epoch, s); return err })
	return ok && err == nil, err
}

func (g faultyGate) Discard(ctx context.Context, d *inventory.Draft) error {
	return g.plan.around("discard", func() error { return g.Gate.Discard(ctx, d) })
}

// faultyStore returns the same store with commits that fail as planned: the
// steps "commit" (orders inserted, paid late or refunded), "close", "mark", "recount" and "takeover".
func faultyStore(t testing.TB, s *Store, plan plan) *Store {
	t.Helper()
	faulty := *s
	db, err := s.over(&faultyPool{DB: s.sql, plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	faulty.db = db
	return &faulty
}

type faultyPool struct {
	*sql.DB
	plan plan
}

func (p *faultyPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, opts)
	return &faultyTx{Tx: tx, plan: p.plan, step: "read"}, err
}

// faultyTx knows by its statements which step it is.
type faultyTx struct {
	*sql.Tx
	plan plan
	step string
}

func (tx *faultyTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tx.note(query)
	return tx.Tx.ExecContext(ctx, query, args...)
}

func (tx *faultyTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	tx.note(query) // on SQLite gorm inserts with RETURNING
	return tx.Tx.QueryContext(ctx, query, args...)
}

func (tx *faultyTx) note(query string) {
	for part, step := range map[string]string{
		"INSERT INTO `orders`": "commit", "INSERT INTO `refunds`": "commit", "`hold_id`=": "commit", "SET epoch": "recount", "SET fence": "takeover",
		"SET `closed_at`=?,`status`": "close",
	} {
		if strings.Contains(query, part) {
			tx.step = step
		}
	}
	if tx.step == "read" && strings.Contains(query, "SET `restored_at`") {
		tx.step = "mark" // a recount does it too
	}
}

func (tx *faultyTx) Commit() error {
	err := tx.plan.around(tx.step, tx.Tx.Commit)
	if errors.Is(err, errFault) {
		_ = tx.Rollback() // does nothing where it was committed
	}
	return err
}

// interrupted returns the same store, with something happening right after
// its first statement outside of a transaction.
func interrupted(t testing.TB, s *Store, by func()) *Store {
	t.Helper()
	return interruptedAt(t, s, "", by)
}

// interruptedAt is interrupted right after the first query within a
// transaction that contains part of a statement; "" for one outside.
func interruptedAt(t testing.TB, s *Store, part string, by func()) *Store {
	t.Helper()
	bare := *s
	db, err := s.over(&interruptedPool{DB: s.sql, part: part, by: sync.OnceFunc(by)})
	if err != nil {
		t.Fatal(err)
	}
	bare.db = db
	return &bare
}

type interruptedPool struct {
	*sql.DB
	part string
	by   func()
}

func (p *interruptedPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := p.DB.ExecContext(ctx, query, args...)
	if p.part == "" {
		p.by()
	}
	return r, err
}

func (p *interruptedPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, opts)
	return &interruptedTx{tx, p}, err
}

type interruptedTx struct {
	*sql.Tx
	pool *interruptedPool
}

func (tx *interruptedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	rows, err := tx.Tx.QueryContext(ctx, query, args...)
	if tx.pool.part != "" && strings.Contains(query, tx.pool.part) {
		tx.pool.by()
	}
	return rows, err
}
