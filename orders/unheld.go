package orders

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"flashsale/inventory"
)

// A sale with ReserveOn OnPayment takes no units for an order, only for its
// payment. So such an order needs no gate: it is a row, inserted by whichever
// node it comes to, under the sale's row lock and by the keeper's judge, for all
// buyers of a moment together. It is unheld: callers see pending_payment, and
// whatever adds up the units of open orders does not find it. It has nothing to
// give back, so it is restored from the beginning.
//
// In that it is like an order that has expired and whose units are back on sale.
// Its payment is that of one paid late (late.go): gate, queue, keeper. Only that
// the order stays open after a no, and nothing is owed: payers charge after the
// yes. But a no by the database to what a gate has let in, or may have before
// Redis went, is recorded as a refund all the same: the payer may not be there to
// hear it, and whoever asks again must not hear yes.
//
// What an order hears is a hint, by what is sold and held at that moment: there
// may be nothing left when it is paid. Orders that are not paid count for
// nothing, not for their buyer's limit either.

// errUnheld is Store.Pay's answer for an order whose units are still to be taken.
var errUnheld = errors.New("orders: the order holds no units")

// errHolds refuses an unheld order of a sale whose orders hold units.
var errHolds = errors.New("orders: the sale takes units on order")

// mostUnheld bounds the buyers of one node who wait for unheld orders at once.
// They wait for the database alone, some ten thousand a second.
const mostUnheld = 4096

// Unheld is Commit for orders that take no units. Who is refused leaves no row.
// Errors: errHolds, inventory.ErrNotOpen, inventory.ErrClosed, and then nothing
// has happened; else the outcome is unknown.
func (s *Store) Unheld(ctx context.Context, sku string, batch []inventory.Queued) ([]verdict, error) {
	return s.commitUngated(ctx, sku, batch, unheld, func(sale *lockedSale) error {
		if sale.ReserveOn != OnPayment {
			return errHolds
		}
		return nil
	})
}

// placeUnheld is Place from where the limiter has let the order pass, for a sale
// that takes units on payment. It answers with a durable order or with a no.
// Error, beside those of Place: errHolds, and then nothing has happened.
func (s *Service) placeUnheld(ctx context.Context, p Placement, sale *Sale) (Placed, error) {
	if sale.Total-sale.Sold < p.Quantity { // so says a copy that may be a second old: enough for a hint
		return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: inventory.ErrSoldOut, Known: true})
	}
	return s.placeInLine(ctx, s.unheld, p)
}

// placeInLine is Place by a transaction that no gate stands before. It answers
// with a durable order or with a no. Errors, beside those of Place: errNotDirect
// and errHolds, and then nothing has happened.
func (s *Service) placeInLine(ctx context.Context, l *line, p Placement) (Placed, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Placed{}, fmt.Errorf("new order id: %w", err)
	}
	v, err := l.place(ctx, p.SKU, inventory.Queued{
		OrderID: id.String(), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: p.fingerprint(),
	})
	switch {
	case errors.Is(err, inventory.ErrNotOpen), errors.Is(err, inventory.ErrClosed):
		return s.refused(ctx, p, p.fingerprint(), &inventory.Refusal{Reason: err, Known: true})
	case errors.Is(err, inventory.ErrBusy), errors.Is(err, errNotDirect), errors.Is(err, errHolds):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(ErrUnavailable, err)
	case v.refused != "":
		return Placed{}, reasonError(v.refused)
	}
	return answer(v.order, !v.insert)
}

// payDirect is payLate's way while the sale is sold without a gate. It returns
// why the payment is refused; else payment knows what was decided, or it is
// still to be tried.
func (s *Service) payDirect(ctx context.Context, o *Order, ref string) (refused string) {
	id, err := uuid.NewV7()
	if err != nil {
		return ""
	}
	_, err = s.direct.line.place(ctx, o.SKU, inventory.Queued{
		OrderID: id.String(), Buyer: o.Buyer, Quantity: o.Quantity, Key: latePayment{o.ID, ref}.key(),
	})
	return refusalOf(err)
}

// refusalOf is the problem code of a no, "" for anything else.
func refusalOf(err error) string {
	for _, code := range []string{"sold_out", "buyer_limit", "closed", "not_open"} {
		if errors.Is(err, reasons[code]) {
			return code
		}
	}
	return ""
}
