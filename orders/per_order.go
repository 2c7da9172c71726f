package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
)

// The usual way to put a distributed lock before a database, done well: take
// the SKU's lock, judge and insert in one transaction, let go of the lock, for
// each order. Stock is guarded by the database alone: there is no gate, no
// queue and no keeper. It sells as correctly as the keeper does, by the same
// judge, and it is what the keeper is measured against: one lock, one
// transaction and one sync to disk pay for one order here and for a whole
// batch there.
//
// Waiting is not what makes it slow: callers wait in order of arrival, woken by
// the release, and in one process only the first of them talks to Redis.

// mostInLine bounds the buyers who wait for locks on one node. In a longer line
// each would be served when the time it waits is nearly over, and most of the
// work would be for buyers who have gone.
const mostInLine = 256

// placeUnderLock is Place from where the limiter has let the order pass. It
// waits for the lock as long as a buyer waits for a keeper, and always answers
// with a durable order or with a no.
func (s *Service) placeUnderLock(ctx context.Context, p Placement, sale *Sale) (Placed, error) {
	if sale.Total-sale.Sold < p.Quantity {
		// So says a copy that may be a second old. A row read without the lock
		// is enough for a no: otherwise everybody who comes too late would
		// stand in line for it.
		now, err := s.store.Sale(ctx, p.SKU)
		if err != nil {
			return Placed{}, err
		}
		if now.Total-now.Sold < p.Quantity {
			return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: inventory.ErrSoldOut, Known: true})
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Placed{}, fmt.Errorf("new order id: %w", err)
	}
	defer s.inLine.Add(-1)
	if s.inLine.Add(1) > mostInLine {
		return Placed{}, inventory.ErrBusy
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.Wait)
	defer cancel()
	held, err := s.locks.Acquire(wait, lockKey(p.SKU))
	if err != nil {
		return Placed{}, errors.Join(ErrUnavailable, err) // nothing was sold
	}
	// The lock's context: the transaction ends before another holder can begin,
	// and goes on when the buyer has hung up.
	v, err := s.store.commitOne(held.Context(), p.SKU, inventory.Queued{
		OrderID: id.String(), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: p.fingerprint(),
	})
	// After the commit, never before, and whatever came of it. A lock that was
	// lost meanwhile has done no harm: the sale's row was locked, too.
	if e := held.Release(ctx); e != nil {
		s.cfg.Log.Debug("release lock", "sku", p.SKU, "error", e)
	}
	switch {
	case errors.Is(err, inventory.ErrNotOpen), errors.Is(err, inventory.ErrClosed):
		return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: err, Known: true})
	case err != nil:
		return Placed{}, err
	case v.refused != "":
		return Placed{}, reasonError(v.refused)
	}
	return answer(v.order, !v.insert)
}

// commitOne is Commit for one order, under whatever guards it from outside.
// Errors: inventory.ErrNotOpen, inventory.ErrClosed; else the outcome is unknown.
func (s *Store) commitOne(ctx context.Context, sku string, q inventory.Queued) (verdict, error) {
	verdicts, err := s.commitUngated(ctx, sku, []inventory.Queued{q}, ungated, func(*lockedSale) error { return nil })
	if err != nil {
		return verdict{}, err
	}
	return verdicts[0], nil
}

// payUnderLock is payLate's way to an expired order where there is no gate to
// ask: the keeper's judgement, for one. It returns why the payment is to be
// given back; else payment knows what was decided.
func (s *Service) payUnderLock(ctx context.Context, o *Order, ref string) (refused string, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("new hold id: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.Wait)
	defer cancel()
	held, err := s.locks.Acquire(wait, lockKey(o.SKU))
	if err != nil {
		return noAnswer, nil
	}
	v, err := s.store.commitOne(held.Context(), o.SKU, inventory.Queued{
		OrderID: id.String(), Buyer: o.Buyer, Quantity: o.Quantity, Key: latePayment{o.ID, ref}.key(),
	})
	if e := held.Release(ctx); e != nil {
		s.cfg.Log.Debug("release lock", "sku", o.SKU, "error", e)
	}
	if no := refusalOf(err); no != "" {
		return no, nil
	}
	if err == nil && v.refund == nil {
		return v.refused, nil
	}
	return "", err
}

// finishEvery is how often closed and paid orders are marked as done with.
const finishEvery = 100 * time.Millisecond

// finish does what is left of a keeper's second step: with no gate to give
// units back to, an order that ended is restored as soon as it is closed.
func (s *Service) finish(ctx context.Context) error {
	tick := time.NewTicker(finishEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.finishOnce(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Debug("finish", "error", err)
			}
		}
	}
}

func (s *Service) finishOnce(ctx context.Context) error {
	skus, err := s.store.EndedSKUs(ctx)
	if err != nil {
		return err
	}
	for _, sku := range skus {
		sale, err := s.catalog.sale(ctx, sku)
		if err != nil {
			return err
		}
		rows, err := s.store.Ended(ctx, sku, s.cfg.Keeper.Batch)
		if err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		if err := s.store.MarkRestored(ctx, sku, sale.Fence, ids); err != nil {
			return err
		}
	}
	return nil
}

// noGate answers for a gate that is not there, by what the database says.
// Nobody keeps a SKU here, so the keeper's methods are never called: they are
// those of the nil Gate.
type noGate struct {
	Gate
	store *Store
}

// SoldOut remembers nothing.
func (noGate) SoldOut(string, string) bool { return false }

// Held finds nothing: an order is a row or it is not.
func (noGate) Held(context.Context, string, ...string) (string, inventory.Hold, bool, error) {
	return "", inventory.Hold{}, false, nil
}

// Look counts units as available only once finish has been by, as an audit
// counts them as on their way back until then.
func (g noGate) Look(ctx context.Context, sku string) (inventory.View, error) {
	glances, err := g.Glance(ctx, sku)
	if err != nil || !glances[0].Exists {
		return inventory.View{}, err
	}
	var back int64
	err = g.store.db.WithContext(ctx).Model(&Order{}).Select("COALESCE(SUM(quantity), 0)").
		Where("sku = ? AND status IN ? AND restored_at IS NULL", sku, closedStatuses).Row().Scan(&back)
	if err != nil {
		return inventory.View{}, fmt.Errorf("units of %s on their way back: %w", sku, err)
	}
	return inventory.View{
		Exists: true, Open: true, Total: glances[0].Terms.Total, Available: glances[0].Available - back,
	}, nil
}

// Glance reads the sales' rows.
func (g noGate) Glance(ctx context.Context, skus ...string) ([]inventory.Glance, error) {
	var sales []Sale
	if err := g.store.db.WithContext(ctx).Where("sku IN ?", skus).Find(&sales).Error; err != nil {
		return nil, fmt.Errorf("read %d sales: %w", len(skus), err)
	}
	bySKU := make(map[string]*Sale, len(sales))
	for i := range sales {
		bySKU[sales[i].SKU] = &sales[i]
	}
	glances := make([]inventory.Glance, len(skus))
	for i, sku := range skus {
		if sale := bySKU[sku]; sale != nil {
			glances[i] = inventory.Glance{
				Exists: true, Open: true, Epoch: sale.Epoch, Terms: sale.Terms(), Available: sale.Total - sale.Sold,
			}
		}
	}
	return glances, nil
}
