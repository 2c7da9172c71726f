package kit

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"
)

// ErrFault is what a step hears on which a fault strikes.
var ErrFault = errors.New("fault")

// A Fault strikes before a step, so that nothing of the step happens, or after it,
// so that only the answer is lost.
type Fault struct {
	Step  string // "ack", "commit", …
	After bool
}

func (f Fault) String() string {
	if f.After {
		return "after " + f.Step
	}
	return "before " + f.Step
}

// A Plan of faults: it is asked at each step, and what it returns happens.
type Plan func(Fault) error

// Once strikes the first time that f comes by, and tells that it has.
func Once(f Fault) (Plan, *atomic.Bool) {
	struck := new(atomic.Bool)
	return func(at Fault) error {
		if at == f && struck.CompareAndSwap(false, true) {
			return ErrFault
		}
		return nil
	}, struck
}

// FromThenOn is what a node that dies at f can still do: nothing.
func FromThenOn(f Fault) (Plan, *atomic.Bool) {
	dead := new(atomic.Bool)
	return func(at Fault) error {
		if at == f {
			dead.Store(true)
		}
		if dead.Load() {
			return ErrFault
		}
		return nil
	}, dead
}

// Around runs one step with the faults that p has for it.
func (p Plan) Around(step string, do func() error) error {
	if err := p(Fault{Step: step}); err != nil {
		return err
	}
	err := do()
	if lost := p(Fault{Step: step, After: true}); lost != nil {
		return lost
	}
	return err
}

type faultyPool struct {
	*sql.DB
	plan Plan
}

func (p *faultyPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	tx, err := p.DB.BeginTx(ctx, opts)
	return &faultyTx{Tx: tx, plan: p.plan, step: "read"}, err
}

// faultyTx knows by its statements which step it is.
type faultyTx struct {
	*sql.Tx
	plan Plan
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
	err := tx.plan.Around(tx.step, tx.Tx.Commit)
	if errors.Is(err, ErrFault) {
		_ = tx.Rollback() // does nothing where it was committed
	}
	return err
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

// Failing are connections whose commits fail as planned: the steps "commit"
// (orders inserted, paid late or refunded), "close", "mark", "recount" and
// "takeover".
func Failing(db *gorm.DB, plan Plan) gorm.ConnPool { return &faultyPool{DB: poolOf(db), plan: plan} }

// InterruptedBy are connections on which something happens right after the first
// query within a transaction that contains part of a statement; where that is "",
// after the first statement outside of one.
func InterruptedBy(db *gorm.DB, part string, by func()) gorm.ConnPool {
	return &interruptedPool{DB: poolOf(db), part: part, by: sync.OnceFunc(by)}
}

func poolOf(db *gorm.DB) *sql.DB {
	pool, err := db.DB()
	if err != nil {
		panic(err)
	}
	return pool
}

// Onto returns a store on other connections, by its On.
func Onto[S any](t testing.TB, on func(gorm.ConnPool) (S, error), pool gorm.ConnPool) S {
	t.Helper()
	store, err := on(pool)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
