package orders

import (
	"context"
	"errors"
)

// Order finds an order of buyer: the row, or what the gate holds while it is
// on its way into the database. sku and key, where the caller knows them, help
// to find an order that was durable under another id: the first under its key.
func (s *Service) Order(ctx context.Context, buyer, id, sku, key string) (*Order, error) {
	if !isOrderID(id) {
		return nil, ErrNotFound
	}
	o, err := s.store.OrderOf(ctx, buyer, id)
	if !errors.Is(err, ErrNotFound) {
		return o, err
	}
	if !isSKU(sku) {
		sku = ""
	}
	o, heldErr := s.held(ctx, buyer, id, sku)
	if heldErr == nil {
		return o, nil
	}
	// Between the two looks it may have become a row.
	if o, err := s.store.OrderOf(ctx, buyer, id); !errors.Is(err, ErrNotFound) {
		return o, err
	}
	if sku == "" || !visibleASCII(key, 128) {
		return nil, heldErr
	}
	// A row under the key is the answer, also while the gate can't be asked:
	// whatever is in its queue under the same key will be found to be this.
	o, err = s.store.OrderByKey(ctx, sku, buyer, key)
	if errors.Is(err, ErrNotFound) {
		err = heldErr
	}
	return o, err
}

// held finds an order that only the gate knows. Without a SKU every sale's
// gate is asked, in one pipeline.
func (s *Service) held(ctx context.Context, buyer, id, sku string) (*Order, error) {
	skus := []string{sku}
	if sku == "" {
		sales, _, err := s.catalog.sales(ctx)
		if err != nil {
			return nil, err
		}
		skus = skus[:0]
		for i := range sales {
			skus = append(skus, sales[i].SKU)
		}
	}
	if len(skus) == 0 {
		return nil, ErrNotFound
	}
	sku, hold, ok, err := s.gate.Held(ctx, id, skus...)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	if !ok || hold.Buyer != buyer {
		return nil, ErrNotFound
	}
	sale, err := s.catalog.sale(ctx, sku)
	if err != nil {
		return nil, err
	}
	return &Order{
		ID: id, SKU: sku, Buyer: buyer, Quantity: hold.Quantity,
		Amount: sale.Price * hold.Quantity, Currency: sale.Currency, Status: Reserved, CreatedAt: hold.At,
	}, nil
}

// Pay pays an order; see Store.Pay. An order that is not durable yet is
// ErrInProgress. One that was closed, or that holds no units yet, takes them or
// is not paid; see payLate.
func (s *Service) Pay(ctx context.Context, buyer, id, ref string) (*Order, error) {
	f := fields{}
	f.check(visibleASCII(ref, 128), "payment_ref", "must be 1 to 128 visible ASCII characters")
	if err := f.err(); err != nil {
		return nil, err
	}
	o, err := s.end(ctx, buyer, id, func() (*Order, error) { return s.store.Pay(ctx, buyer, id, ref) })
	if errors.Is(err, ErrOrderClosed) || errors.Is(err, ErrAlreadyPaid) || errors.Is(err, errUnheld) {
		return s.payLate(ctx, buyer, id, ref)
	}
	return o, err
}

// Cancel cancels an order; see Store.Cancel.
func (s *Service) Cancel(ctx context.Context, buyer, id string) (*Order, error) {
	return s.end(ctx, buyer, id, func() (*Order, error) { return s.store.Cancel(ctx, buyer, id) })
}

// end ends an order, and has the SKU's keeper tell the gate.
func (s *Service) end(ctx context.Context, buyer, id string, do func() (*Order, error)) (*Order, error) {
	if !isOrderID(id) {
		return nil, ErrNotFound
	}
	o, err := do()
	if errors.Is(err, ErrNotFound) {
		_, heldErr := s.held(ctx, buyer, id, "")
		if heldErr == nil {
			return nil, ErrInProgress
		}
		// It may have become a row between the two looks.
		o, err = do()
		if errors.Is(err, ErrNotFound) {
			err = heldErr // "not found" only if the gate could be asked, too
		}
	}
	if o != nil && o.RestoredAt == nil {
		s.ended(ctx, o.SKU)
	}
	return o, err
}
