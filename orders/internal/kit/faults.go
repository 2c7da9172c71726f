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

// ErrFault is the error of a step with a fault.
var ErrFault = errors.New("fault")

// A Fault is a failure before a step, so that the step does nothing, or after it, so that
// only the answer is lost.
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

// A Plan is called before and after each step. If it returns an error, the step fails.
type Plan func(Fault) error

// Once returns a Plan in which f happens once, and a flag that is set when it has happened.
func Once(f Fault) (Plan, *atomic.Bool) {
	struck := new(atomic.Bool)
	return func(at Fault) error {
		if at == f && struck.CompareAndSwap(false, true) {
			return ErrFault
		}
		return nil
	}, struck
}

// FromThenOn returns a Plan in which f and every later step fail, as on a node that dies at
// f, and a flag that is set from f on.
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

// Around runs do as the named step, with the faults of p.
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

// faultyTx derives the name of its step from its statements.
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
		"SET `change_no`=?,`closed_at`=?,`status`": "close",
	} {
		if strings.Contains(query, part) {
			tx.step = step
		}
	}
	if tx.step == "read" && strings.Contains(query, "SET `restored_at`") {
		tx.step = "mark" // not in a recount, which also sets restored_at
	}
}

func (tx *faultyTx) Commit() error {
	err := tx.plan.Around(tx.step, tx.Tx.Commit)
	if errors.Is(err, ErrFault) {
		_ = tx.Rollback() // no effect after a commit
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

// Failing returns a connection pool whose commits fail as planned. The steps are "commit"
// (orders inserted, paid late or claims recorded), "close", "mark", "recount" and "takeover".
func Failing(db *gorm.DB, plan Plan) gorm.ConnPool { return &faultyPool{DB: poolOf(db), plan: plan} }

// InterruptedBy returns a connection pool that calls by once: after the first query of a
// transaction that contains part, or, if part is "", after the first statement outside of a
// transaction.
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

// Onto returns a store that uses pool. on is the store's method On.
func Onto[S any](t testing.TB, on func(gorm.ConnPool) (S, error), pool gorm.ConnPool) S {
	t.Helper()
	store, err := on(pool)
	if err != nil {
		t.Fatalf("open a store on the faulty pool: got error %v, want none", err)
	}
	return store
}
