package shop

import (
	"context"
	"errors"

	"flashsale/orders"
)

// Order finds an order of buyer: the row, or what the gate holds while it is
// on its way into the database. sku and key, where the caller knows them, help
// to find an order that was durable under another id: the first under its key.
func (s *Service) Order(ctx context.Context, buyer, id, sku, key string) (*orders.Order, error) {
	if !orders.IsOrderID(id) {
		return nil, orders.ErrNotFound
	}
	o, err := s.find(ctx, buyer, id, sku, key)
	if err == nil && o.Status != orders.Reserved {
		err = s.store.Barrier(ctx)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (s *Service) find(ctx context.Context, buyer, id, sku, key string) (*orders.Order, error) {
	if !orders.IsSKU(sku) {
		sku = ""
	}
	o, err := s.rowOrHeld(ctx, buyer, id, sku, func() (*orders.Order, error) { return s.store.OrderOf(ctx, buyer, id) })
	if err == nil || sku == "" || !orders.VisibleASCII(key, 128) {
		return o, err
	}
	// The row under the key is the answer, also while the gate cannot be asked: the keeper
	// will find that row for whatever is queued under the same key.
	first, keyErr := s.store.OrderByKey(ctx, sku, buyer, key)
	if errors.Is(keyErr, orders.ErrNotFound) {
		return nil, err
	}
	return first, keyErr
}

// rowOrHeld returns what look finds in the database, or else the order that the gate holds
// (see held). The gate is asked between two looks, because the order may become a row.
func (s *Service) rowOrHeld(ctx context.Context, buyer, id, sku string, look func() (*orders.Order, error)) (*orders.Order, error) {
	o, err := look()
	if !errors.Is(err, orders.ErrNotFound) {
		return o, err
	}
	o, heldErr := s.held(ctx, buyer, id, sku)
	if heldErr == nil {
		return o, nil
	}
	if err := s.store.Barrier(ctx); err != nil {
		return nil, err
	}
	if o, err = look(); errors.Is(err, orders.ErrNotFound) {
		err = heldErr // "not found" only if the gate could be asked, too
	}
	return o, err
}

// held finds an order that only the gate knows, of buyer or, where that is "", of
// anybody. Without a SKU the gates are asked whose SKU the id fits: one, as a
// rule.
func (s *Service) held(ctx context.Context, buyer, id, sku string) (*orders.Order, error) {
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
	sku, hold, ok, err := s.gate.Held(ctx, id, skus...)
	if err != nil {
		return nil, errors.Join(orders.ErrUnavailable, err)
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
		Amount: sale.Price * hold.Quantity, Currency: sale.Currency, Status: orders.Reserved, CreatedAt: hold.At,
	}, nil
}

// Pay pays an order; see Store.Pay. An order that is not durable yet is
// ErrInProgress. One that was closed, or that holds no units yet, takes them or
// is not paid; see payLate.
func (s *Service) Pay(ctx context.Context, buyer, id, ref string) (*orders.Order, error) {
	var f orders.Fields
	f.Check(orders.VisibleASCII(ref, 128), "payment_ref", "must be 1 to 128 visible ASCII characters")
	if err := f.Err(); err != nil {
		return nil, err
	}
	o, err := s.end(ctx, buyer, id, func() (*orders.Order, error) { return s.store.Pay(ctx, buyer, id, ref) })
	if errors.Is(err, orders.ErrOrderClosed) || errors.Is(err, orders.ErrAlreadyPaid) || errors.Is(err, orders.ErrHoldsNone) {
		return s.payLate(ctx, buyer, id, ref)
	}
	return o, err
}

// Cancel cancels an order; see Store.Cancel.
func (s *Service) Cancel(ctx context.Context, buyer, id string) (*orders.Order, error) {
	return s.end(ctx, buyer, id, func() (*orders.Order, error) { return s.store.Cancel(ctx, buyer, id) })
}

// end asks the limiter, ends an order, and has the SKU's keeper tell the gate.
func (s *Service) end(ctx context.Context, buyer, id string, do func() (*orders.Order, error)) (*orders.Order, error) {
	if err := s.cfg.Limiter.Allow(ctx, buyer, "", ""); err != nil {
		return nil, err
	}
	if !orders.IsOrderID(id) {
		return nil, orders.ErrNotFound
	}
	o, err := s.rowOrHeld(ctx, buyer, id, "", do)
	if err == nil && o.Status == orders.Reserved {
		return nil, orders.ErrInProgress
	}
	if o != nil && o.RestoredAt == nil {
		s.controller.RequestRelease(ctx, o.SKU)
	}
	return o, err
}

// BuyerOf finds whose order it is, in the queue or durable, for who may pay or see
// anybody's. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) BuyerOf(ctx context.Context, id string) (string, error) {
	if !orders.IsOrderID(id) {
		return "", orders.ErrNotFound
	}
	o, err := s.rowOrHeld(ctx, "", id, "", func() (*orders.Order, error) {
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
