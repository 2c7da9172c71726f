package drill

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

func paidAtExpiry(ctx context.Context, a *controlSale) error {
	err := tries(5, "no payment came in time", func() (bool, error) {
		paid, err := a.collide(ctx)
		return paid > 0, err
	})
	if err != nil {
		return err
	}
	epoch, err := a.epoch(ctx)
	if err != nil {
		return err
	}
	if err := a.balanced(ctx, epoch); err != nil {
		return err
	}
	both, err := a.count(ctx, "paid_at IS NOT NULL AND closed_at IS NOT NULL")
	if err == nil && both > 0 {
		a.broke("paid and expired: %d orders were paid, and closed in the same instant", both)
	}
	return err
}

// colliding is the number of orders that are paid and expire at the same instant.
const colliding = 9

// collide sells orders and locks their rows until all payments wait for them, and then
// their expiry does. It locks the row of the sale until all orders are due, so that one
// transaction expires all of them. It returns the number of accepted payments. That is 0
// if the machine was too slow and an order expired before its row was locked.
func (a *controlSale) collide(ctx context.Context) (paid int, err error) {
	orders, err := a.buyMany(ctx, colliding)
	if err != nil {
		return 0, err
	}
	// The sale ends. In an open sale, the payment of an expired order takes new units,
	// which would hide that the order was first expired and then paid.
	open := a.terms.ClosesAt
	a.terms.ClosesAt = time.Now()
	defer func() {
		a.terms.ClosesAt = open
		err = errors.Join(err, a.putUntil(ctx, 2*colliding))
	}()
	if err := a.putUntil(ctx, 2*colliding); err != nil {
		return 0, err
	}
	var locks []string
	for _, o := range orders {
		locks = append(locks, "SELECT id FROM orders WHERE id = '"+o.ID+"' FOR UPDATE")
	}
	rows, err := a.lockRows(ctx, locks...)
	if err != nil {
		return 0, err
	}
	defer rows()
	sale, err := a.lockRows(ctx, "SELECT sku FROM sales WHERE sku = '"+a.sku+"' FOR UPDATE")
	if err != nil {
		return 0, err
	}
	defer sale()
	unpaid, err := a.count(ctx, "status = 'pending_payment' AND expires_at > UTC_TIMESTAMP(3)")
	if err != nil || unpaid < colliding {
		return 0, err
	}
	answers := make(chan int, colliding)
	for i, o := range orders {
		go func() { answers <- a.end(ctx, o, pay, i) }()
	}
	waiting := func(what string, want int64, statement string) error {
		return a.until(ctx, what, func(ctx context.Context) bool {
			sleep(ctx, 150*time.Millisecond) // MariaDB refreshes the view only after 100 ms without a read
			n, err := a.row(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE ?", statement)
			return err == nil && n >= want
		})
	}
	if err := waiting("all payments wait for their orders", colliding, "UPDATE `orders` SET%`payment_ref`='paid-%"); err != nil {
		return 0, err
	}
	if err := a.untilCount(ctx, "all orders are due", 0, "expires_at > UTC_TIMESTAMP(3)"); err != nil {
		return 0, err
	}
	sale()
	if err := waiting("expiry waits for the same orders", 1, "UPDATE `orders` SET%`closed_at`=%"+orders[0].ID+"%"); err != nil {
		return 0, err
	}
	a.did("%d payments and the expiry of their orders wait", colliding)
	rows()
	for range colliding {
		if <-answers == 200 {
			paid++
		}
	}
	a.did("%d orders paid", paid)
	// The row of the sale is free again when the expiry has committed.
	if sale, err = a.lockRows(ctx, "SELECT sku FROM sales WHERE sku = '"+a.sku+"' FOR UPDATE"); err == nil {
		sale()
	}
	return paid, err
}

// lockRows locks rows until free is called. free may be called more than once.
func (a *controlSale) lockRows(ctx context.Context, statements ...string) (free func(), err error) {
	tx, err := a.mysql.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
	}
	return func() { _ = tx.Rollback() }, nil
}
