package variants

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"

	"flashsale/loadtest/client"
)

// A transaction is the right base of variants that keep stock and orders in the
// database. An order and its units are committed together, so a crash leaves nothing
// to repair.
//
// A variant defines how units are taken and released, and may wrap the transaction.
type transaction struct {
	tables
	// take takes the order's units in the transaction that has inserted the order.
	take func(ctx context.Context, tx *sql.Tx, s Sale, o Order) error
	// release returns the units in the transaction that has closed the order.
	release func(ctx context.Context, tx *sql.Tx, o Order) error
	// within runs f in a transaction.
	within func(ctx context.Context, sku string, f func(tx *sql.Tx) error) error
	// left returns the available units.
	left func(ctx context.Context, s Sale) (int, error)
	// also runs in parallel with the sweep.
	also func(ctx context.Context) error
}

func nothing(context.Context) error { return nil }

func newTransaction(s Stores) *transaction {
	t := &transaction{tables: tables{Stores: s}}
	t.release, t.left, t.also = releaseSold, t.unsold, nothing
	t.within = func(ctx context.Context, _ string, f func(*sql.Tx) error) error { return t.transact(ctx, f) }
	return t
}

// takenBy returns a constructor of shops that take units by this function.
func takenBy(take func(context.Context, *sql.Tx, Sale, Order) error) func(Stores) Shop {
	return func(s Stores) Shop {
		t := newTransaction(s)
		t.take = take
		return t
	}
}

// errReplayed rolls back a transaction whose order exists already.
var errReplayed = errors.New("variants: the order is a replay")

func (t *transaction) Order(ctx context.Context, o Order) (Order, bool, error) {
	s, err := t.Sale(ctx, o.SKU)
	if err != nil {
		return o, false, err
	}
	if s.OnPayment {
		return t.promise(ctx, o)
	}
	var earlier string
	err = t.within(ctx, o.SKU, func(tx *sql.Tx) (err error) {
		if earlier, err = t.claim(ctx, tx, s, o); err != nil {
			return err
		}
		if err := insert(ctx, tx, o); err != nil {
			return err
		}
		// Take the units last: from here on all orders of the sale wait for each other.
		return t.take(ctx, tx, s, o)
	})
	if errors.Is(err, errReplayed) {
		o, err = t.Find(ctx, earlier)
		return o, true, err
	}
	return o, false, err
}

// claim locks the buyer's row until the end of the transaction, so two orders of one
// buyer are never checked at the same time. It returns ErrBuyerLimit, or errReplayed
// with the id of the order that has the same key.
func (t *transaction) claim(ctx context.Context, tx *sql.Tx, s Sale, o Order) (earlier string, err error) {
	onConflict := "ON DUPLICATE KEY UPDATE"
	if t.SQLite {
		onConflict = "ON CONFLICT DO UPDATE SET"
	}
	err = exec(ctx, tx, "INSERT INTO buyers (sku, buyer, units) VALUES (?, ?, ?) "+onConflict+" units = units + ?",
		o.SKU, o.Buyer, o.Quantity, o.Quantity)
	if err != nil {
		return "", err
	}
	var first sql.NullString
	var units int
	err = tx.QueryRowContext(ctx, `SELECT units, (SELECT id FROM orders WHERE sku = ? AND buyer = ? AND order_key = ?)
		FROM buyers WHERE sku = ? AND buyer = ?`, o.SKU, o.Buyer, o.Key, o.SKU, o.Buyer).Scan(&units, &first)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the orders of buyer %s: %w", o.Buyer, err)
	case first.Valid && first.String != o.ID:
		return first.String, errReplayed
	case units > s.UnitsPerBuyer:
		return "", ErrBuyerLimit
	}
	return "", nil
}

// Pay takes the units if the order has none. If there are too few, the order stays
// pending.
func (t *transaction) Pay(ctx context.Context, o Order) error {
	s, err := t.Sale(ctx, o.SKU)
	if err != nil {
		return err
	}
	if !s.OnPayment {
		return t.tables.Pay(ctx, o)
	}
	return t.within(ctx, o.SKU, func(tx *sql.Tx) error {
		paid, err := payRow(ctx, tx, o)
		if err != nil || !paid {
			return err // the order is closed or already paid
		}
		if _, err := t.claim(ctx, tx, s, o); err != nil {
			return err
		}
		return t.take(ctx, tx, s, o)
	})
}

func (t *transaction) Close(ctx context.Context, o Order, as string) error {
	s, err := t.Sale(ctx, o.SKU)
	if err != nil {
		return err
	}
	return t.within(ctx, o.SKU, func(tx *sql.Tx) error {
		closed, err := closeRow(ctx, tx, o, as, true)
		if err != nil || !closed || s.OnPayment {
			return err // a pending order of a sale that takes units on payment has no units
		}
		if err := exec(ctx, tx, "UPDATE buyers SET units = units - ? WHERE sku = ? AND buyer = ?", o.Quantity, o.SKU, o.Buyer); err != nil {
			return err
		}
		return t.release(ctx, tx, o)
	})
}

// releaseSold releases units that are counted in the sale's row.
func releaseSold(ctx context.Context, tx *sql.Tx, o Order) error {
	return exec(ctx, tx, "UPDATE sales SET sold = sold - ? WHERE sku = ?", o.Quantity, o.SKU)
}

func (t *transaction) unsold(ctx context.Context, s Sale) (int, error) {
	sold, err := sum(ctx, t.DB, "SELECT sold FROM sales WHERE sku = ?", s.SKU)
	return s.Total - sold, err
}

// Stock reports available units only: a transaction leaves no units in between.
func (t *transaction) Stock(ctx context.Context, sku string) (Stock, error) {
	s, err := t.Sale(ctx, sku)
	if err != nil {
		return Stock{}, err
	}
	left, err := t.left(ctx, s)
	return Stock{Available: left}, err
}

func (t *transaction) Run(ctx context.Context) error {
	background := make(chan error, 1)
	go func() { background <- t.also(ctx) }()
	err := sweep(ctx, func(ctx context.Context) error { return t.expire(ctx, t.Close) })
	return errors.Join(err, <-background)
}

// transact runs f in a transaction. If the database rolls it back because of a
// deadlock, transact tries again, up to ten times.
func (t *transaction) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	for attempt := time.Duration(1); ; attempt++ {
		err := t.once(ctx, f)
		failure, ok := errors.AsType[*mysql.MySQLError](err)
		if attempt == 10 || !ok || failure.Number != 1213 {
			return err
		}
		if client.Wait(ctx, rand.N(attempt*time.Millisecond)) != nil {
			return err
		}
	}
}

func (t *transaction) once(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := t.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the error of f matters more
		return err
	}
	return tx.Commit()
}
