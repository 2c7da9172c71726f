package orders

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"flashsale/inventory"
)

// A Placement is what a buyer asks for.
type Placement struct {
	Buyer    string
	IP       string // for the limiter
	SKU      string
	Quantity int64
	Key      string // idempotency key, "" for none
	Async    bool   // do not wait for the order to be durable
}

// validate names every field that is wrong.
func (p *Placement) validate(most int64) error {
	f := fields{}
	f.check(isSKU(p.SKU), "sku", "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
	f.check(isBuyer(p.Buyer), "buyer", "must be 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	f.check(p.Quantity >= 1 && p.Quantity <= most, "quantity", "must be 1 to %d units", most)
	f.check(p.Key == "" || visibleASCII(p.Key, 128), "Idempotency-Key", "must be 1 to 128 visible ASCII characters")
	return f.err()
}

// storeTimeout bounds what is asked of a store beside waiting for a keeper: one
// that neither answers nor fails must not hold anybody for ever.
const storeTimeout = 5 * time.Second

// fingerprint tells one body from another under the same key.
func (p *Placement) fingerprint() string {
	sum := sha256.Sum256(append([]byte(p.SKU+"\n"), strconv.FormatInt(p.Quantity, 10)...))
	return hex.EncodeToString(sum[:16])
}

// Placed is the answer to a placement. Order.Status is Reserved while it is
// not known to be durable.
type Placed struct {
	Order    *Order
	Replayed bool // an earlier request under this key made the order
}

// Place is the way of one order: what this node remembers, the limiter, the
// gate, and the wait for its keeper to make it durable.
//
// Errors: *InvalidError, ErrNotFound, the limiter's, those of
// inventory.Reserve; ErrUnavailable when the outcome is unknown: the same key
// finds out.
func (s *Service) Place(ctx context.Context, p Placement) (Placed, error) {
	if err := p.validate(s.cfg.MaxQuantity); err != nil {
		return Placed{}, err
	}
	// Of orders that hold no units the gate knows nothing, nor of their keys; and
	// what another Redis than before has forgotten, nobody knows.
	replay := p.Key != "" && (s.catalog.onPayment(p.SKU) || s.doubt.is())
	if s.gate.SoldOut(p.SKU, p.Buyer) && !s.catalog.direct(p.SKU) && !replay {
		return Placed{}, inventory.ErrSoldOut
	}
	// Whatever hangs, the caller hears within the wait and a little.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+storeTimeout)
	defer cancel()
	if s.cfg.Limiter != nil {
		if err := s.cfg.Limiter.Allow(ctx, p.Buyer, p.IP, p.SKU); err != nil {
			return Placed{}, err
		}
	}
	sale, err := s.catalog.sale(ctx, p.SKU)
	if err != nil {
		return Placed{}, err
	}
	if sale.ReserveOn == OnPayment {
		// Unless an operator has changed it since the catalog was read.
		if placed, err := s.placeUnheld(ctx, p, sale); !errors.Is(err, errHolds) {
			return placed, err
		}
	}
	if s.cfg.PerOrder {
		return s.placeUnderLock(ctx, p, sale)
	}
	if sale.Mode == modeDirect {
		// Unless it has ended since the catalog was read: then there is a gate.
		if placed, err := s.placeInLine(ctx, s.direct.line, p); !errors.Is(err, errNotDirect) {
			return placed, err
		}
	}

	id, err := uuid.NewV7()
	if err != nil {
		return Placed{}, fmt.Errorf("new order id: %w", err)
	}
	request := inventory.Request{
		OrderID: id.String(), SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Key: p.Key, Fingerprint: p.fingerprint(), Node: s.cfg.Node, Trace: s.cfg.Trace(ctx),
	}
	waiter := s.waiters.wait(request.OrderID)
	defer func() { s.waiters.leave(waiter) }()
	reserved, err := s.gate.Reserve(ctx, request)
	if err != nil {
		return s.refused(ctx, p, request.Fingerprint, err)
	}
	pending := &Order{
		ID: reserved.OrderID, SKU: p.SKU, Buyer: p.Buyer, Quantity: p.Quantity,
		Amount: sale.Price * p.Quantity, Currency: sale.Currency, Status: Reserved, CreatedAt: reserved.At,
	}
	if reserved.Replayed {
		// The order is another request's: wait for that one. It may have
		// become durable before we began to wait.
		s.waiters.leave(waiter)
		waiter = s.waiters.wait(reserved.OrderID)
		if first, err := s.first(ctx, p, request.Fingerprint); !errors.Is(err, ErrNotFound) {
			return first, err
		}
	}
	if p.Async {
		return Placed{Order: pending, Replayed: reserved.Replayed}, nil
	}
	return s.await(ctx, waiter, pending, reserved.Replayed)
}

// await waits until the keeper has judged the order. When it takes too long,
// the answer is the order as reserved: it promises nothing yet.
func (s *Service) await(ctx context.Context, w *waiter, pending *Order, replayed bool) (Placed, error) {
	patience := time.NewTimer(s.cfg.Wait)
	defer patience.Stop()
	select {
	case t := <-w.told:
		if t.Refused != "" {
			return Placed{}, reasonError(t.Refused)
		}
		return answer(t.Order, replayed || t.Order.ID != pending.ID)
	case <-patience.C:
		return Placed{Order: pending, Replayed: replayed}, nil
	case <-ctx.Done():
		return Placed{}, ctx.Err()
	}
}

// refused looks once more before a no: a keyed request of a buyer who has had
// an order may be its replay, and then the answer is that order. The database
// knows it even when the gate has forgotten the key; and where the gate may have
// forgotten the buyer, anybody may have had an order (doubt.go).
func (s *Service) refused(ctx context.Context, p Placement, fingerprint string, no error) (Placed, error) {
	var refusal *inventory.Refusal
	if !errors.As(no, &refusal) {
		return Placed{}, errors.Join(ErrUnavailable, no)
	}
	// Whoever finds no room or no gate tries again, and then hears of a replay:
	// a database that does not keep up is not asked in vain.
	passing := errors.Is(no, inventory.ErrBusy) || errors.Is(no, inventory.ErrNoGate) || errors.Is(no, inventory.ErrRebuilding)
	if p.Key == "" || !refusal.Known && !s.doubt.is() || passing {
		return Placed{}, no
	}
	first, err := s.first(ctx, p, fingerprint)
	if errors.Is(err, ErrNotFound) {
		return Placed{}, no
	}
	return first, err
}

// first is the durable order under a placement's key. It is looked for by the
// key and not by the id that the gate remembers: a gate that had forgotten the
// key may have made a second id of it, which never became an order.
func (s *Service) first(ctx context.Context, p Placement, fingerprint string) (Placed, error) {
	o, err := s.store.OrderByKey(ctx, p.SKU, p.Buyer, p.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(ErrUnavailable, err)
	case o.RequestHash != fingerprint:
		return Placed{}, inventory.ErrMismatch
	}
	return answer(o, true)
}

// answer is the order, or why the database rejected it.
func answer(o *Order, replayed bool) (Placed, error) {
	if o.Status == Rejected {
		return Placed{}, reasonError(o.Reason)
	}
	return Placed{Order: o, Replayed: replayed}, nil
}
