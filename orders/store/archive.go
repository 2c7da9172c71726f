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

// An Archive is a database on the same server to which old sales are moved. Each step moves a
// batch of orders with their claims, in ONE transaction over both databases. The last step
// deletes the sale. If a process dies between two steps, any other process can continue.
//
// The first step copies the sale and marks it ModeArchived. From then on, no other process
// changes the sale or its orders: LockSale refuses, reads do not find the sale, and its
// keepers are fenced off. A PUT of the SKU is refused until the last step.
type Archive struct {
	store *Store
	name  string
	batch int // orders per step

	Reported bool // all consumers of the feed of changes have read it to its end
}

// OpenArchive opens an existing database as an archive. It creates the tables that are
// missing, with the columns that the store's tables have now.
func (s *Store) OpenArchive(ctx context.Context, name string) (*Archive, error) {
	a := &Archive{store: s, name: name, batch: 1000}
	if s.sqlite {
		return nil, errors.New("open archive: not supported on SQLite, use MySQL")
	}
	archived := []any{&orders.Sale{}, &orders.Order{}, &orders.Claim{}}
	for _, model := range archived {
		table, _, err := s.columnsOf(model)
		if err == nil {
			err = s.DB.WithContext(ctx).Exec("CREATE TABLE IF NOT EXISTS " + a.table(table) + " LIKE " + table).Error
		}
		switch {
		case isDenied(err):
			return nil, wrap(a.missing(err), "open archive %s", name)
		case err != nil:
			return nil, fmt.Errorf("open archive %s (create it with CREATE DATABASE): %w", name, err)
		}
	}
	return a, wrap(s.checkColumns(ctx, name, archived...), "open archive %s", name)
}

// missing names the rights that the account needs, if err means that it lacks one.
func (a *Archive) missing(err error) error {
	if isDenied(err) {
		return fmt.Errorf("the account lacks a right, so GRANT CREATE, SELECT, INSERT ON %s.* to it: %w", a.name, err)
	}
	return err
}

// table returns the qualified name of a table of the archive.
func (a *Archive) table(name string) string { return qualified(a.name, name) }

// copy copies the rows of a model that match the condition into the archive, and returns their
// number. It names the columns, because the columns of the archive may have another order.
func (a *Archive) copy(tx *gorm.DB, model any, where string, arg any) (int64, error) {
	table, columns, err := a.store.columnsOf(model)
	if err != nil {
		return 0, err
	}
	names := strings.Join(columns, ", ")
	r := tx.Exec("INSERT INTO "+a.table(table)+" ("+names+") SELECT "+names+" FROM "+table+" WHERE "+where, arg)
	return r.RowsAffected, r.Error
}

// An ArchiveStep is the result of one step.
type ArchiveStep struct {
	Orders int64 // orders moved
	Last   bool  // the whole sale is in the archive
}

// Step moves the next orders of sku. The first step fails unless the sale is in ModeOver. It also
// fails unless LastOrder, the last change by an operator plus the payment window, and the last
// claim are all longer ago than quiet. Several processes may move one sale at the same time.
// Error: ErrNotFound.
func (a *Archive) Step(ctx context.Context, sku string, quiet time.Duration) (ArchiveStep, error) {
	step, err := transact(ctx, a.store, func(tx *gorm.DB) (ArchiveStep, error) {
		var archived []time.Time // creation time of the sale with this SKU in the archive
		sale, err := a.store.lockRow(tx, sku)
		if err == nil || errors.Is(err, orders.ErrNotFound) {
			err = errors.Join(err, tx.Table(a.table("sales")).Where("sku = ?", sku).Pluck("created_at", &archived).Error)
		}
		begun := err == nil && sale.Mode == orders.ModeArchived
		switch {
		case errors.Is(err, orders.ErrNotFound) && len(archived) > 0:
			return ArchiveStep{Last: true}, nil
		case err != nil:
			return ArchiveStep{}, err
		case begun && (len(archived) == 0 || !archived[0].Equal(sale.CreatedAt)):
			return ArchiveStep{}, fmt.Errorf("the sale is being moved to another archive than %s: continue with that archive", a.name)
		case !begun && len(archived) > 0:
			return ArchiveStep{}, fmt.Errorf("%s has an older sale with this SKU: use another archive", a.name)
		case !begun:
			if err := a.begin(tx, sale, quiet); err != nil {
				return ArchiveStep{}, err
			}
		}
		return a.move(tx, sku)
	})
	return step, wrap(a.missing(err), "archive %s", sku)
}

// begin copies the sale into the archive and marks it ModeArchived.
func (a *Archive) begin(tx *gorm.DB, sale *LockedSale, quiet time.Duration) error {
	open, err := a.store.HasOpenOrders(tx, sale.SKU)
	if err != nil {
		return err
	}
	if open || sale.Mode != orders.ModeOver {
		return errors.New("the sale is not over yet: it is over one minute after the last order can have expired, if all orders are released")
	}
	since := sale.Now.Add(-quiet)
	var claims int64
	if err := tx.Model(&orders.Claim{}).Where("created_at > ? AND sku = ?", since, sale.SKU).Count(&claims).Error; err != nil {
		return err
	}
	changed := sale.UpdatedAt.Add(time.Duration(sale.PaymentWindowS) * time.Second)
	if claims > 0 || sale.LastExpiry().After(since) || changed.After(since) {
		return fmt.Errorf("the sale is archived too early: it was on, was changed, or had a refund claim within the last %s", quiet)
	}
	if err := a.reported(tx, sale); err != nil {
		return err
	}
	if _, err := a.copy(tx, &orders.Sale{}, "sku = ?", sale.SKU); err != nil {
		return err
	}
	return tx.Exec("UPDATE sales SET mode = ?, fence = fence + 1 WHERE sku = ?", orders.ModeArchived, sale.SKU).Error
}

// reported returns an error if consumers of the feed of changes may not have read every order of the
// sale yet. They would skip the orders, because a moved order is no longer in the feed.
func (a *Archive) reported(tx *gorm.DB, sale *LockedSale) error {
	var last int64
	var unnumbered bool
	err := tx.Raw("SELECT last, EXISTS(SELECT 1 FROM orders WHERE sku = ? AND change_no IS NULL) FROM feed WHERE id = 1", sale.SKU).Row().Scan(&last, &unnumbered)
	switch {
	case err != nil || last == 0: // the feed has never been on
		return err
	case unnumbered:
		return errors.New("the feed of changes has not reported all orders of the sale: run a node with --changes until flashsale_feed_lag_seconds is 0")
	case !a.Reported:
		return errors.New("consumers of the feed of changes may not have read all orders of the sale: let all of them read to the end, and use --reported then")
	}
	return nil
}

// move moves a batch of orders with their claims, and deletes the sale after the last batch.
func (a *Archive) move(tx *gorm.DB, sku string) (step ArchiveStep, err error) {
	var ids []string
	if err := tx.Table(a.store.ordersByKey()).Where("sku = ?", sku).Limit(a.batch).Pluck("id", &ids).Error; err != nil {
		return step, err
	}
	for _, rows := range []struct {
		model any
		where string
	}{{&orders.Claim{}, "order_id IN ?"}, {&orders.Order{}, "id IN ?"}} {
		copied, err := a.copy(tx, rows.model, rows.where, ids)
		if err != nil {
			return step, err
		}
		deleted := tx.Where(rows.where, ids).Delete(rows.model)
		if deleted.Error == nil && deleted.RowsAffected != copied {
			deleted.Error = fmt.Errorf("move rows to archive %s: %d were copied, but %d deleted", a.name, copied, deleted.RowsAffected)
		}
		if deleted.Error != nil {
			return step, deleted.Error
		}
		step.Orders = copied
	}
	if len(ids) < a.batch {
		step.Last, err = true, tx.Exec("DELETE FROM sales WHERE sku = ?", sku).Error
	}
	return step, err
}
