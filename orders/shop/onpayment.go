package shop

import (
	"context"
	"errors"
	"time"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A sale with ReserveOn OnPayment takes no units for an order, only for its
// payment. So such an order needs no gate: it is a row, inserted by whichever
// node it comes to, under the sale's row lock and by the keeper's judge, for all
// buyers of a moment together. It awaits payment: callers see pending_payment, and
// whatever adds up the units of open orders does not find it. It has nothing to
// give back, so it is restored from the beginning.
//
// In that it is like an order that has expired and whose units are back on sale.
// Its payment is that of one paid late (paylate.go): gate, queue, keeper. Only that
// the order stays open after a no, and nothing is owed: payers charge after the
// yes. But a no by the database to what a gate has let in, or may have before
// Redis went, is recorded as a refund all the same: the payer may not be there to
// hear it, and whoever asks again must not hear yes.
//
// What an order hears is a hint, by what is sold and held at that moment: there
// may be nothing left when it is paid. Orders that are not paid count for
// nothing, not for their buyer's limit either.

// maxOnPayment bounds the buyers of one node who wait for such orders at once.
// They wait for the database alone, some ten thousand a second.
const maxOnPayment = 4096

// placeOnPayment is Place from where the limiter has let the order pass, for a sale
// that takes units on payment. It answers with a durable order or with a no.
// Error, beside those of Place: orders.ErrTakesUnits, and then nothing has happened.
func (s *Service) placeOnPayment(ctx context.Context, p Placement, sale *orders.Sale) (Placed, error) {
	if sale.Total-sale.Sold < p.Quantity { // so says a copy that may be a second old: enough for a hint
		return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: inventory.ErrSoldOut, Known: true})
	}
	if err := s.untilGateKnows(ctx, sale); err != nil {
		return Placed{}, err
	}
	return s.placeInLine(ctx, s.onPayment, p)
}

// A reached is a gate that was seen to be of an epoch.
type reached struct {
	epoch int64
	at    time.Time
}

// untilGateKnows waits until no gate of before the sale took units on payment can
// refuse the key of an order that is placed now: until it is rebuilt, and what
// nodes remember of the one before is forgotten. It asks once for each epoch.
func (s *Service) untilGateKnows(ctx context.Context, sale *orders.Sale) error {
	seen, _ := s.reached.Load(sale.SKU)
	r, _ := seen.(reached)
	if sale.Mode == orders.ModeDirect || s.keepers.Down(sale.SKU) {
		return nil // no gate is asked
	}
	ctx, cancel := context.WithTimeout(ctx, store.Timeout)
	defer cancel()
	if r.epoch != sale.Epoch {
		summaries, err := s.gate.Summaries(ctx, sale.SKU)
		if err != nil {
			return errors.Join(orders.ErrUnavailable, err)
		}
		if g := summaries[0]; g.Exists && g.Epoch < sale.Epoch {
			return inventory.ErrRebuilding
		}
		r = reached{sale.Epoch, time.Now()}
		s.reached.Store(sale.SKU, r)
	}
	select {
	case <-time.After(time.Until(r.at.Add(soldOutFor))): // it is forgotten
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// soldOutFor is how long a node may remember that a sale is sold out, see
// inventory.Config.
const soldOutFor = 100 * time.Millisecond

// placeInLine is Place by a transaction that no gate stands before. It answers
// with a durable order or with a no. Errors, beside those of Place: orders.ErrNotDirect
// and orders.ErrTakesUnits, and then nothing has happened.
func (s *Service) placeInLine(ctx context.Context, l *line, p Placement) (Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+store.Timeout)
	defer cancel()
	v, err := l.place(ctx, p.SKU, inventory.Queued{
		OrderID: orders.NewOrderID(p.SKU), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: p.fingerprint(),
	})
	switch {
	case errors.Is(err, inventory.ErrNotOpen), errors.Is(err, inventory.ErrClosed):
		return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: err, Known: true})
	case errors.Is(err, inventory.ErrBusy), errors.Is(err, orders.ErrNotDirect), errors.Is(err, orders.ErrTakesUnits):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case v.Refused != "":
		return Placed{}, v.Refused.Err()
	}
	return answer(v.Order, v.Action != orders.Insert)
}

// payDirect is payLate's way while the sale is sold without a gate. It returns
// why the payment is refused; else payment knows what was decided, or it is
// still to be tried.
func (s *Service) payDirect(ctx context.Context, o *orders.Order, ref string) (refused orders.Reason) {
	v, err := s.direct.place(ctx, o.SKU, inventory.Queued{
		OrderID: orders.NewHoldID(o.ID), Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, Pays: o.ID,
	})
	if err == nil && o.Status == orders.AwaitingPayment { // else the refusal is a row
		return v.Refused
	}
	return orders.RefusalOf(err)
}
