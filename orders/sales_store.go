package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// PutSale creates or changes a sale and tells whether it is new. A changed
// total never touches what was sold, and a changed ReserveOn (default OnOrder)
// no order that is there: each has in its status whether it holds units. Errors: *InvalidError, ErrBelowSold.
func (s *Store) PutSale(ctx context.Context, sale Sale) (created bool, err error) {
	if sale.ReserveOn == "" {
		sale.ReserveOn = OnOrder
	}
	if err := sale.Validate(); err != nil {
		return false, err
	}
	sale.OpensAt, sale.ClosesAt = sale.OpensAt.UTC().Truncate(time.Millisecond), sale.ClosesAt.UTC().Truncate(time.Millisecond)
	put := func(tx *gorm.DB) error {
		now, err := s.clock(tx)
		if err != nil {
			return err
		}
		was, err := s.lockSale(tx, sale.SKU)
		if created = errors.Is(err, ErrNotFound); created {
			sale.Sold, sale.Fence, sale.Epoch, sale.Mode = 0, 0, 0, modeGate
			sale.CreatedAt, sale.UpdatedAt = now, now
			return tx.Create(&sale).Error
		}
		if err != nil {
			return err
		}
		if sale.Total < was.Sold {
			return fmt.Errorf("%w: %d units are sold", ErrBelowSold, was.Sold)
		}
		return tx.Model(&Sale{}).Where("sku = ?", sale.SKU).Updates(map[string]any{
			"name": sale.Name, "price": sale.Price, "currency": sale.Currency, "total": sale.Total,
			"per_buyer_limit": sale.PerBuyerLimit, "opens_at": sale.OpensAt, "closes_at": sale.ClosesAt,
			"payment_window_s": sale.PaymentWindowS, "reserve_on": sale.ReserveOn, "updated_at": now,
		}).Error
	}
	err = s.transact(ctx, put)
	if created && isBadData(err) { // another node created it in the same instant
		err = s.transact(ctx, put)
	}
	if err != nil {
		return false, fmt.Errorf("put sale %s: %w", sale.SKU, err)
	}
	return created, nil
}

// Sale reads one sale. Error: ErrNotFound.
func (s *Store) Sale(ctx context.Context, sku string) (*Sale, error) {
	var sale Sale
	err := s.db.WithContext(ctx).Where("sku = ?", sku).Take(&sale).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, fmt.Errorf("sale %s: %w", sku, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read sale %s: %w", sku, err)
	}
	return &sale, nil
}

// Sales reads the sales that are not long over, and the database's clock.
func (s *Store) Sales(ctx context.Context) ([]Sale, time.Time, error) {
	now, err := s.clock(s.db.WithContext(ctx))
	if err != nil {
		return nil, now, fmt.Errorf("read the database's clock: %w", err)
	}
	var sales []Sale
	if err := s.db.WithContext(ctx).Where("closes_at > ?", now.Add(-maxWindow*time.Second-keptAfter)).Order("opens_at DESC, sku").Find(&sales).Error; err != nil {
		return nil, now, fmt.Errorf("read sales: %w", err)
	}
	return sales, now, nil
}

// AskRebuild asks the keeper of sku to rebuild its gate, by raising the epoch
// in the database: a gate of another epoch is one to rebuild. It returns the
// epoch that the gate will have passed by then.
func (s *Store) AskRebuild(ctx context.Context, sku string) (epoch int64, err error) {
	err = s.transact(ctx, func(tx *gorm.DB) error {
		sale, err := s.lockSale(tx, sku)
		if err != nil {
			return err
		}
		epoch = sale.Epoch + 1
		return tx.Exec("UPDATE sales SET epoch = ? WHERE sku = ?", epoch, sku).Error
	})
	if err != nil {
		return 0, fmt.Errorf("ask for a rebuild of %s: %w", sku, err)
	}
	return epoch, nil
}
