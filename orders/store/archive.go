package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale/orders"
)

// An Archive is another database on the same server, which sales that are over are
// moved to: a sale's orders with their refunds, a batch at a time, and the sale with
// the last batch. Each step is ONE transaction over both databases. So whoever dies
// between two steps loses nothing, and anybody goes on.
//
// The first step puts the sale into the archive and marks it ModeArchived. From then on
// nobody else changes it or its orders: LockSale refuses it, reads do not find it, and
// its keepers are fenced off. A PUT of the SKU is refused until the last step.
type Archive struct {
	store *Store
	name  string
	batch int // orders of one step
}

// OpenArchive opens the database of that name, which must exist, and creates the tables
// that it lacks, of the same shape as the store's.
func (s *Store) OpenArchive(ctx context.Context, name string) (*Archive, error) {
	a := &Archive{store: s, name: name, batch: 1000}
	if s.sqlite {
		return nil, errors.New("open an archive: SQLite has none, it takes MySQL")
	}
	for _, table := range []string{"sales", "orders", "refunds"} {
		if err := s.DB.WithContext(ctx).Exec("CREATE TABLE IF NOT EXISTS " + a.table(table) + " LIKE " + table).Error; err != nil {
			return nil, fmt.Errorf("open the archive %s (CREATE DATABASE makes one): %w", name, err)
		}
	}
	return a, nil
}

// table is the name of a table of the archive.
func (a *Archive) table(name string) string {
	return "`" + strings.ReplaceAll(a.name, "`", "``") + "`." + name
}

// An ArchiveStep is what one step has done.
type ArchiveStep struct {
	Orders int64 // moved
	Last   bool  // the whole sale is in the archive
}

// Step moves the next orders of sku. The first step wants a sale that is over, and has
// been left alone for as long as quiet says: since its end, its last change by an
// operator, its last refund. Any number of callers may do the steps of one sale at the
// same time. Error: ErrNotFound.
func (a *Archive) Step(ctx context.Context, sku string, quiet time.Duration) (ArchiveStep, error) {
	step, err := transact(ctx, a.store, func(tx *gorm.DB) (ArchiveStep, error) {
		var there []time.Time // when the sale of that SKU in the archive was created
		sale, err := a.store.lockRow(tx, sku)
		if err == nil || errors.Is(err, orders.ErrNotFound) {
			err = errors.Join(err, tx.Table(a.table("sales")).Where("sku = ?", sku).Pluck("created_at", &there).Error)
		}
		begun := err == nil && sale.Mode == orders.ModeArchived
		switch {
		case errors.Is(err, orders.ErrNotFound) && len(there) > 0:
			return ArchiveStep{Last: true}, nil
		case err != nil:
			return ArchiveStep{}, err
		case begun && (len(there) == 0 || !there[0].Equal(sale.CreatedAt)):
			return ArchiveStep{}, fmt.Errorf("%s is being moved to another archive than %s", sku, a.name)
		case !begun && len(there) > 0:
			return ArchiveStep{}, fmt.Errorf("%s has an older sale of %s: take another archive", a.name, sku)
		case !begun:
			if err := a.begin(tx, sale, quiet); err != nil {
				return ArchiveStep{}, err
			}
		}
		return a.move(tx, sku)
	})
	return step, wrap(err, "archive %s", sku)
}

// begin puts the sale into the archive, and keeps everybody else from it.
func (a *Archive) begin(tx *gorm.DB, sale *LockedSale, quiet time.Duration) error {
	open, err := a.store.HasOpenOrders(tx, sale.SKU)
	if err != nil {
		return err
	}
	if open || sale.Mode != orders.ModeOver {
		return errors.New("the sale is not over: a minute after the last order has expired, and the gate has heard of all, it is")
	}
	since := sale.Now.Add(-quiet)
	var refunds int64
	if err := tx.Model(&orders.Claim{}).Where("created_at > ? AND sku = ?", since, sale.SKU).Count(&refunds).Error; err != nil {
		return err
	}
	changed := sale.UpdatedAt.Add(time.Duration(sale.PaymentWindowS) * time.Second)
	if refunds > 0 || sale.LastOrder().After(since) || changed.After(since) {
		return fmt.Errorf("within the last %s the sale was on, was changed, or had a refund", quiet)
	}
	if err := tx.Exec("INSERT INTO "+a.table("sales")+" SELECT * FROM sales WHERE sku = ?", sale.SKU).Error; err != nil {
		return err
	}
	return tx.Exec("UPDATE sales SET mode = ?, fence = fence + 1 WHERE sku = ?", orders.ModeArchived, sale.SKU).Error
}

// move moves a batch of orders with their refunds, and drops the sale after the last one.
func (a *Archive) move(tx *gorm.DB, sku string) (step ArchiveStep, err error) {
	var ids []string
	if err := tx.Table(a.store.ordersByKey()).Where("sku = ?", sku).Limit(a.batch).Pluck("id", &ids).Error; err != nil {
		return step, err
	}
	for _, rows := range []string{"refunds WHERE order_id IN ?", "orders WHERE id IN ?"} {
		table, _, _ := strings.Cut(rows, " ")
		put := tx.Exec("INSERT INTO "+a.table(table)+" SELECT * FROM "+rows, ids)
		if put.Error != nil {
			return step, put.Error
		}
		dropped := tx.Exec("DELETE FROM "+rows, ids)
		if dropped.Error == nil && dropped.RowsAffected != put.RowsAffected {
			dropped.Error = fmt.Errorf("%d rows of %s copied, %d deleted", put.RowsAffected, table, dropped.RowsAffected)
		}
		if dropped.Error != nil {
			return step, dropped.Error
		}
		step.Orders = put.RowsAffected
	}
	if len(ids) < a.batch {
		step.Last, err = true, tx.Exec("DELETE FROM sales WHERE sku = ?", sku).Error
	}
	return step, err
}
