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

// A transaction is the right base of all who have everything in the database:
// an order and its units are committed together, or not at all. There is
// nothing to repair after a crash.
//
// A variant says how units are taken and given back, and may put something
// around the transaction.
type transaction struct {
	tables
	// take takes the order's units in the transaction that has inserted it.
	take func(ctx context.Context, tx *sql.Tx, s Sale, o Order) error
	// restore gives them back in the transaction that has closed it.
	restore func(ctx context.Context, tx *sql.Tx, o Order) error
	// within runs f in a transaction.
	within func(ctx context.Context, sku string, f func(tx *sql.Tx) error) error
	// left says how many units are available.
	left func(ctx context.Context, s Sale) (int, error)
	// also runs beside the sweep.
	also func(ctx context.Context) error
}

func nothing(context.Context) error { return nil }

func newTransaction(s Stores) *transaction {
	t := &transaction{tables: tables{Stores: s}}
	t.restore, t.left, t.also = restoreSold, t.unsold, nothing
	t.within = func(ctx context.Context, _ string, f func(*sql.Tx) error) error { return t.transact(ctx, f) }
	return t
}

// takenBy makes a shop of transactions that takes units in this way.
func takenBy(take func(context.Context, *sql.Tx, Sale, Order) error) func(Stores) Shop {
	return func(s Stores) Shop {
		t := newTransaction(s)
		t.take = take
		return t
	}
}

// errReplayed ends a transaction in which there is nothing to do.
var errReplayed = errors.New("variants: replayed")

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
		// Last, for here everybody waits for everybody.
		return t.take(ctx, tx, s, o)
	})
	if errors.Is(err, errReplayed) {
		o, err = t.Find(ctx, earlier)
		return o, true, err
	}
	return o, false, err
}

// claim locks the buyer's row until the end of the transaction, so that no two
// orders of one buyer are judged at the same time. It returns the id of the
// order under the same key with errReplayed, or ErrBuyerLimit.
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
		return "", fmt.Errorf("read buyer %s: %w", o.Buyer, err)
	case first.Valid && first.String != o.ID:
		return first.String, errReplayed
	case units > s.PerBuyer:
		return "", ErrBuyerLimit
	}
	return "", nil
}

// Pay takes the units if the order has none, or refuses and leaves it pending.
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
			return err // it has ended, or is paid already
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
			return err // a pending order of such a sale has no units
		}
		if err := exec(ctx, tx, "UPDATE buyers SET units = units - ? WHERE sku = ? AND buyer = ?", o.Quantity, o.SKU, o.Buyer); err != nil {
			return err
		}
		return t.restore(ctx, tx, o)
	})
}

// restoreSold is for those who count the units in the sale's row.
func restoreSold(ctx context.Context, tx *sql.Tx, o Order) error {
	return exec(ctx, tx, "UPDATE sales SET sold = sold - ? WHERE sku = ?", o.Quantity, o.SKU)
}

func (t *transaction) unsold(ctx context.Context, s Sale) (int, error) {
	sold, err := sum(ctx, t.DB, "SELECT sold FROM sales WHERE sku = ?", s.SKU)
	return s.Total - sold, err
}

// Stock has nothing under way: what is committed is all there is.
func (t *transaction) Stock(ctx context.Context, sku string) (Stock, error) {
	s, err := t.Sale(ctx, sku)
	if err != nil {
		return Stock{}, err
	}
	left, err := t.left(ctx, s)
	return Stock{Available: left}, err
}

func (t *transaction) Run(ctx context.Context) error {
	beside := make(chan error, 1)
	go func() { beside <- t.also(ctx) }()
	err := sweep(ctx, func(ctx context.Context) error { return t.expire(ctx, t.Close) })
	return errors.Join(err, <-beside)
}

// transact runs f in a transaction, again if the database chose it as the
// victim of a deadlock: then nothing of it has happened.
func (t *transaction) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	for attempt := time.Duration(1); ; attempt++ {
		err := t.once(ctx, f)
		refused, ok := errors.AsType[*mysql.MySQLError](err)
		if attempt == 10 || !ok || refused.Number != 1213 {
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
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the error that matters is f's
		return err
	}
	return tx.Commit()
}
