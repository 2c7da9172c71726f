package shop

import (
	"context"
	"errors"

	"flashsale/orders"
)

// Order returns an order of buyer. If the order is still queued, the result is the
// queued order, with status Reserved. sku and key are optional. With both, Order also finds
// the first order with that key, whose id differs if the gate had forgotten the key.
//
// Errors: ErrNotFound, ErrUnavailable, errors of the database.
func (s *Service) Order(ctx context.Context, buyer, id, sku, key string) (*orders.Order, error) {
	if !orders.IsOrderID(id) {
		return nil, orders.ErrNotFound
	}
	if !orders.IsSKU(sku) {
		sku = ""
	}
	o, err := s.rowOrQueued(ctx, buyer, id, sku, func() (*orders.Order, error) { return s.store.OrderOf(ctx, buyer, id) })
	noOrder := errors.Is(err, orders.ErrNotFound) || errors.Is(err, errGateAway)
	if !noOrder || sku == "" || !orders.VisibleASCII(key, 128) {
		return o, err
	}
	// The row with the key is the answer even if the gate cannot be asked, because the keeper
	// answers every order in the queue that has this key with that row.
	first, keyErr := s.store.OrderByKey(ctx, sku, buyer, key)
	if errors.Is(keyErr, orders.ErrNotFound) {
		return nil, err
	}
	return first, keyErr
}

// errGateAway is part of an error if the gate could not be asked for an order.
var errGateAway = errors.New("shop: the gate cannot be asked")

// rowOrQueued returns the row that lookup finds, or the queued order. lookup is called a second
// time after the gate was asked, because the order may have become a row by then.
func (s *Service) rowOrQueued(ctx context.Context, buyer, id, sku string, lookup func() (*orders.Order, error)) (*orders.Order, error) {
	o, err := lookup()
	if !errors.Is(err, orders.ErrNotFound) {
		return o, err
	}
	o, queuedErr := s.queuedOrder(ctx, buyer, id, sku)
	if queuedErr == nil {
		return o, nil
	}
	if o, err = lookup(); errors.Is(err, orders.ErrNotFound) {
		err = queuedErr // ErrNotFound only if the gate could be asked
	}
	return o, err
}

// queuedOrder returns a queued order. If buyer is empty, the order may be of any buyer. If sku is
// empty, queuedOrder asks the gates of all SKUs that fit the id, usually one.
func (s *Service) queuedOrder(ctx context.Context, buyer, id, sku string) (*orders.Order, error) {
	skus := []string{sku}
	if sku == "" {
		sales, _, err := s.catalog.Sales(ctx)
		if err != nil {
			return nil, err
		}
		skus = skus[:0]
		for i := range sales {
			if orders.MayBeOf(id, sales[i].SKU) {
				skus = append(skus, sales[i].SKU)
			}
		}
	}
	if len(skus) == 0 {
		return nil, orders.ErrNotFound
	}
	sku, hold, ok, err := s.gate.FindHold(ctx, id, skus...)
	if err != nil {
		return nil, errors.Join(orders.ErrUnavailable, errGateAway, err)
	}
	if !ok || buyer != "" && hold.Buyer != buyer {
		return nil, orders.ErrNotFound
	}
	sale, err := s.catalog.Sale(ctx, sku)
	if err != nil {
		return nil, err
	}
	return &orders.Order{
		ID: id, SKU: sku, Buyer: hold.Buyer, Quantity: hold.Quantity,
		Amount: sale.Price * hold.Quantity, Currency: sale.Currency, Status: orders.Reserved, CreatedAt: hold.AcceptedAt,
	}, nil
}

// Pay pays an order. ref is the payment's reference; a repetition with the same ref has the
// same result. If the order has expired, or takes its units on payment, Pay asks the gate for
// the units and waits for the keeper. This takes at most Config.Wait plus the store's Timeout.
//
// Errors: *orders.InvalidError, ErrNotFound, ErrInProgress while the order is queued, the
// errors of the limiter, of Store.Pay and of takeUnitsAndPay.
func (s *Service) Pay(ctx context.Context, buyer, id, ref string) (*orders.Order, error) {
	return s.PayCharge(ctx, buyer, id, ref, orders.Charge{})
}

// PayCharge is Pay for a payment whose amount or currency is reported. If the order has another
// amount or currency, the payment is refused and a refund claim is recorded. Error:
// ErrAmountMismatch.
func (s *Service) PayCharge(ctx context.Context, buyer, id, ref string, charge orders.Charge) (*orders.Order, error) {
	var f orders.Fields
	f.Check(orders.VisibleASCII(ref, 128), "payment_ref", "must be 1 to 128 visible ASCII characters")
	charge.Check(&f)
	if err := f.Err(); err != nil {
		return nil, err
	}
	o, err := s.payOrCancel(ctx, buyer, id, func() (*orders.Order, error) {
		if o, err := s.store.RefuseCharge(ctx, buyer, id, ref, charge); err != nil {
			return o, err
		}
		return s.store.Pay(ctx, buyer, id, ref)
	})
	if errors.Is(err, orders.ErrOrderClosed) || errors.Is(err, orders.ErrAlreadyPaid) || errors.Is(err, orders.ErrHoldsNone) {
		return s.takeUnitsAndPay(ctx, buyer, id, ref)
	}
	return o, err
}

// Cancel cancels an order. Errors: ErrNotFound, ErrInProgress while the order is queued, the
// errors of the limiter and of Store.Cancel.
func (s *Service) Cancel(ctx context.Context, buyer, id string) (*orders.Order, error) {
	return s.payOrCancel(ctx, buyer, id, func() (*orders.Order, error) { return s.store.Cancel(ctx, buyer, id) })
}

// payOrCancel asks the limiter, calls do to pay or cancel the order, and requests the release
// of the order's hold.
func (s *Service) payOrCancel(ctx context.Context, buyer, id string, do func() (*orders.Order, error)) (*orders.Order, error) {
	if err := s.cfg.Limiter.Allow(ctx, buyer, "", ""); err != nil {
		return nil, err
	}
	if !orders.IsOrderID(id) {
		return nil, orders.ErrNotFound
	}
	o, err := s.rowOrQueued(ctx, buyer, id, "", do)
	if err == nil && o.Status == orders.Reserved {
		return nil, orders.ErrInProgress
	}
	if o != nil && o.RestoredAt == nil {
		s.controller.RequestRelease(ctx, o.SKU)
	}
	return o, err
}

// BuyerOf returns the buyer of an order, which may be queued or durable. It is for callers
// that may pay or read the orders of every buyer. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) BuyerOf(ctx context.Context, id string) (string, error) {
	if !orders.IsOrderID(id) {
		return "", orders.ErrNotFound
	}
	o, err := s.rowOrQueued(ctx, "", id, "", func() (*orders.Order, error) {
		rows, err := s.store.OrdersByID(ctx, []string{id})
		switch {
		case err != nil:
			return nil, errors.Join(orders.ErrUnavailable, err)
		case len(rows) == 0:
			return nil, orders.ErrNotFound
		}
		return &rows[0], nil
	})
	if err != nil {
		return "", err
	}
	return o.Buyer, nil
}
