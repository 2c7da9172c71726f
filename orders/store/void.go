package store

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"flashsale/orders"
)

// MaxVoid is the maximum number of orders of one call of Void. It limits the time for which Void
// locks the sale's row.
const MaxVoid = 200

// notVoided excludes the orders that Void has taken back (orders.Order.Voided). The keeper must not
// release them: the gate may have dropped their holds when they were paid, and a release without a
// hold returns no units. The rebuild returns the units and sets restored_at (BeginEpoch).
const notVoided = "(status <> 'cancelled' OR payment_ref IS NULL)"

// Voided is the result of Void.
type Voided struct {
	Voided  []string  `json:"voided"` // ids of the orders that this call has taken back
	Skipped []Skipped `json:"skipped"`
}

// Skipped is an order that Void has not changed. Why is not_found, already_voided, or the status
// that the API shows.
type Skipped struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Void takes back paid orders of sku, in one transaction: it cancels them, subtracts their units
// from sales.sold, and records a refund claim for each payment, even if the order has MaxClaims
// claims. If the sale has a gate, Void announces a new epoch, because only a rebuild returns the
// units. Until then the sale continues, and several calls share the rebuild. In direct mode, and
// after the sale is over, Void announces nothing, because no gate has to release the units.
//
// Repeating the call changes nothing. Errors: ErrNotFound if there is no sale, ErrUnavailable.
func (s *Store) Void(ctx context.Context, sku string, ids []string, reason orders.Reason) (Voided, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	voided, err := onSession(ctx, s, func(db *gorm.DB) (v Voided, err error) {
		err = db.Transaction(func(tx *gorm.DB) error {
			v, err = s.void(tx, sku, ids, reason)
			return err
		})
		if err == nil && len(v.Voided) == 0 { // the answer rests on rows that were only read
			err = s.barrier(db)
		}
		return v, err
	})
	return voided, wrap(err, "take back %d orders of %s", len(ids), sku)
}

func (s *Store) void(tx *gorm.DB, sku string, ids []string, reason orders.Reason) (Voided, error) {
	v := Voided{Voided: []string{}, Skipped: []Skipped{}}
	sale, err := s.LockSale(tx, sku)
	if err != nil {
		return v, err
	}
	// The database rejects comparisons with ids that are not ASCII.
	valid := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !orders.IsOrderID(id) })
	var rows []orders.Order
	if err := tx.Where("id IN ? AND sku = ?", valid, sku).Find(&rows).Error; err != nil {
		return v, err
	}
	found := make(map[string]*orders.Order, len(rows))
	for i := range rows {
		found[rows[i].ID] = &rows[i]
	}
	var claims []*orders.Claim
	var units int64
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		o, why := found[id], ""
		switch {
		case seen[id]:
			continue
		case o == nil:
			why = "not_found"
		case o.Voided():
			why = "already_voided"
		case o.Status != orders.Paid || o.PaymentRef == nil:
			why = string(o.JSON().Status)
		}
		if seen[id] = true; why != "" {
			v.Skipped = append(v.Skipped, Skipped{id, why})
			continue
		}
		v.Voided = append(v.Voided, id)
		claims = append(claims, orders.NewClaim(o, *o.PaymentRef, reason, sale.Now))
		units += o.Quantity
	}
	if len(claims) == 0 {
		return v, nil
	}
	// If the sale is over, restored_at is set now, because no rebuild will set it.
	set := map[string]any{"status": orders.Cancelled, "closed_at": sale.Now, "restored_at": sale.Now, "claims": gorm.Expr("claims + 1"), "change_no": nil}
	if sale.Mode != orders.ModeOver {
		set["restored_at"] = nil
		sale.Announce()
	}
	r := tx.Model(&orders.Order{}).Where("id IN ? AND status = ?", v.Voided, orders.Paid).Updates(set)
	if r.Error == nil && r.RowsAffected != int64(len(claims)) { // the sale's row was locked on another master of a Galera cluster
		r.Error = fmt.Errorf("%w: %w", orders.ErrUnavailable, orders.ErrChanged)
	}
	if r.Error != nil {
		return v, r.Error
	}
	if err := tx.Create(claims).Error; err != nil {
		return v, err
	}
	return v, tx.Exec("UPDATE sales SET sold = sold - ?, mode = ? WHERE sku = ?", units, sale.Mode, sku).Error
}
