package orders

import (
	"errors"

	"flashsale/inventory"
)

// A Reason explains why an order or a payment was refused. It is a problem code of the API
// or, in a refund claim, the status of the order.
type Reason string

// The reasons.
const (
	SoldOut     Reason = "sold_out"
	BuyerLimit  Reason = "buyer_limit"
	OrderLimit  Reason = "order_limit" // the buyer has made OrdersPerBuyer orders; also buyer_limit in the API, and never stored
	Mismatch    Reason = "idempotency_mismatch"
	Closed      Reason = "closed"
	NotOpen     Reason = "not_open"
	AlreadyPaid Reason = "already_paid"
	OrderClosed Reason = "order_closed"
	Voided      Reason = "voided"       // in a claim: an operator has taken the order back, and gave no other reason
	Unavailable Reason = "unavailable"  // in a claim: the gate or the keeper did not answer in time
	NotReleased Reason = "not_restored" // in a claim: the units of the order were not released in time

	AmountMismatch Reason = "amount_mismatch"
)

// refusals maps a reason to the error that callers receive.
var refusals = map[Reason]error{
	SoldOut:     inventory.ErrSoldOut,
	BuyerLimit:  inventory.ErrBuyerLimit,
	OrderLimit:  ErrOrderLimit,
	Mismatch:    inventory.ErrMismatch,
	Closed:      inventory.ErrClosed,
	NotOpen:     inventory.ErrNotOpen,
	AlreadyPaid: ErrAlreadyPaid,
	OrderClosed: ErrOrderClosed,
	Unavailable: ErrUnavailable,

	AmountMismatch: ErrAmountMismatch,
}

// Err returns the error that callers receive for the reason.
func (r Reason) Err() error {
	if err, ok := refusals[r]; ok {
		return err
	}
	return errors.New("orders: rejected: " + string(r))
}

// RefusalOf returns the reason if err is a refusal by the gate, or in direct mode, to sell
// units for a Payment. Otherwise it returns "".
func RefusalOf(err error) Reason {
	for _, r := range []Reason{SoldOut, BuyerLimit, Closed, NotOpen} {
		if errors.Is(err, refusals[r]) {
			return r
		}
	}
	return ""
}
