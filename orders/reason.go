package orders

import (
	"errors"

	"flashsale/inventory"
)

// A Reason is why an order or a payment is refused: a problem code of the API, or,
// of a refund, the status that the order has.
type Reason string

// The reasons.
const (
	SoldOut     Reason = "sold_out"
	BuyerLimit  Reason = "buyer_limit"
	Mismatch    Reason = "idempotency_mismatch"
	Closed      Reason = "closed"
	NotOpen     Reason = "not_open"
	AlreadyPaid Reason = "already_paid"
	OrderClosed Reason = "order_closed"
	Unavailable Reason = "unavailable"  // of a refund: gate or keeper did not answer in time
	NotReleased Reason = "not_restored" // of a refund: the units of the order had not come back to sale in time
)

// refusals are what a caller hears of each reason.
var refusals = map[Reason]error{
	SoldOut:     inventory.ErrSoldOut,
	BuyerLimit:  inventory.ErrBuyerLimit,
	Mismatch:    inventory.ErrMismatch,
	Closed:      inventory.ErrClosed,
	NotOpen:     inventory.ErrNotOpen,
	AlreadyPaid: ErrAlreadyPaid,
	OrderClosed: ErrOrderClosed,
	Unavailable: ErrUnavailable,
}

// Err is what the caller hears.
func (r Reason) Err() error {
	if err, ok := refusals[r]; ok {
		return err
	}
	return errors.New("orders: rejected: " + string(r))
}

// RefusalOf is the reason of a no of the gate, or of direct mode, to an order that
// could be had before; "" for anything else.
func RefusalOf(err error) Reason {
	for _, r := range []Reason{SoldOut, BuyerLimit, Closed, NotOpen} {
		if errors.Is(err, refusals[r]) {
			return r
		}
	}
	return ""
}
