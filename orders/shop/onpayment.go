package shop

import (
	"context"
	"errors"

	"flashsale/inventory"
	"flashsale/orders"
)

// A sale with ReserveOn OnPayment takes no units for an order, only for its payment.
// Such an order needs no gate. It is a row, which any node inserts under the sale's row
// lock, with the keeper's decision, for all buyers of the same moment together. Its
// status is awaiting_payment, which callers see as pending_payment. Sums over the units
// of open orders do not find it. It has no units to release, so it counts as released.
//
// Its payment takes the path of a payment after expiry (paylate.go): gate, queue, keeper.
// There is one difference: a rejection leaves the order open and creates no refund claim,
// because a payer charges the buyer only after the acceptance. If the database rejects a
// payment that a gate accepted, or may have accepted before Redis was lost, a refund claim
// is recorded. The payer may not receive the rejection, and a repetition of the payment
// must not be accepted.
//
// An order is refused if no units are left at that moment. When it is paid, there may be
// none left. Unpaid orders do not count, and the buyer's limit ignores them, too.
//
// A sale may change to OnPayment at any time. Its orders take units until the gate has
// been replaced (orders.Sale.TakesOnPayment), because the gate does not know the keys of
// orders without units, and would refuse their replays.

// maxOnPayment bounds the buyers of one node who wait for such orders at once.
// They wait for the database alone, some ten thousand a second.
const maxOnPayment = 4096

// placeInLine sells an order by a shared commit, without a gate. After orders.ErrNotDirect and
// orders.ErrTakesUnits nothing has happened.
func (s *Service) placeInLine(ctx context.Context, l *line, p Placement) (Placed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Wait+s.store.Timeout)
	defer cancel()
	d, err := l.place(ctx, p.SKU, inventory.Queued{
		OrderID: orders.NewOrderID(p.SKU), Buyer: p.Buyer, Quantity: p.Quantity, Key: p.Key, Fingerprint: p.fingerprint(),
	})
	switch {
	case errors.Is(err, inventory.ErrBusy), isOld(err):
		return Placed{}, err
	case err != nil:
		return Placed{}, errors.Join(orders.ErrUnavailable, err)
	case d.Refused != "":
		return s.refuseOrder(ctx, p, refusal{reason: d.Refused.Err(), source: database})
	}
	return answer(d.Order, d.Action != orders.Insert)
}

// payDirect decides on a payment while the sale has no gate. It returns the reason if the
// payment is refused. If the reason is empty, Store.Payment returns the outcome, if there
// is one yet.
func (s *Service) payDirect(ctx context.Context, o *orders.Order, ref string) orders.Reason {
	d, err := s.direct.place(ctx, o.SKU, inventory.Queued{
		OrderID: orders.NewHoldID(o.ID), Buyer: o.Buyer, Quantity: o.Quantity, Key: ref, Pays: o.ID,
	})
	if err != nil || o.Status != orders.AwaitingPayment { // the refusal of an expired order's payment is a row
		return ""
	}
	return d.Refused
}
