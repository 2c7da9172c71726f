package orders

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flashsale/inventory"
)

// Errors that callers receive, in addition to the refusals of package inventory.
var (
	ErrNotFound    = errors.New("orders: the sale or order does not exist")
	ErrAlreadyPaid = errors.New("orders: the order is already paid")
	ErrOrderClosed = errors.New("orders: the order is closed")          // cancelled, expired or rejected
	ErrInProgress  = errors.New("orders: the order is not durable yet") // still in the queue
	ErrBelowSold   = errors.New("orders: the total would be below the units sold")
	ErrUnavailable = errors.New("orders: a dependency is not available") // the outcome is unknown, or nothing was done: retry
)

// BelowSoldError is ErrBelowSold with the number of units sold.
type BelowSoldError struct{ Sold int64 }

func (e *BelowSoldError) Error() string {
	return fmt.Sprintf("%v: %d units are sold", ErrBelowSold, e.Sold)
}

// Unwrap returns ErrBelowSold.
func (e *BelowSoldError) Unwrap() error { return ErrBelowSold }

// ErrClaimed is ErrOrderClosed for a payment that has a refund claim.
var ErrClaimed = fmt.Errorf("%w, and a refund claim is recorded for the payment", ErrOrderClosed)

// ErrOrderLimit is inventory.ErrBuyerLimit for a buyer who has made the maximum number of orders.
var ErrOrderLimit = fmt.Errorf("orders: the buyer has made the maximum number of orders: %w", inventory.ErrBuyerLimit)

// ErrAmountMismatch is returned for a payment of another amount or currency than the order's.
var ErrAmountMismatch = errors.New("orders: the payment is for another amount or currency than the order")

// ErrOnItsWay is returned to an operator if a change is stored in the database but may not
// have reached the gate. It is joined with ErrUnavailable.
var ErrOnItsWay = errors.New("orders: the change is stored, but may not have reached the gate")

// ErrFenced is returned to a keeper if another keeper has taken over its SKU.
var ErrFenced = errors.New("orders: a newer keeper has taken over the sale")

// InvalidError reports the invalid fields of a request. Fields maps the name of a field to
// the rule that the field breaks.
type InvalidError struct {
	Fields map[string]string
}

func (e *InvalidError) Error() string {
	names := slices.Sorted(maps.Keys(e.Fields))
	for i, name := range names {
		names[i] = name + ": " + e.Fields[name]
	}
	return "invalid request: " + strings.Join(names, "; ")
}

// Fields collects the invalid fields of a request. It is nil if all fields are valid.
type Fields map[string]string

// Check records the message for the field name, unless ok is true or the field already has a
// message.
func (f *Fields) Check(ok bool, name, format string, args ...any) {
	if _, seen := (*f)[name]; ok || seen {
		return
	}
	if *f == nil {
		*f = Fields{}
	}
	(*f)[name] = fmt.Sprintf(format, args...)
}

// Err returns an *InvalidError, or nil if every field is valid.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &InvalidError{Fields: f}
}

// ErrHoldsNone is returned by Store.Pay if the payment must take the order's units first.
var ErrHoldsNone = errors.New("orders: the order holds no units, so its payment must take them")

// ErrTakesUnits is returned for an order without units if the sale takes units on order.
var ErrTakesUnits = errors.New("orders: the sale takes units when an order is placed, not when it is paid")

// ErrNotDirect is returned for an order without a gate if the sale is not in direct mode.
var ErrNotDirect = errors.New("orders: the sale is not sold in direct mode")

// ErrChanged is returned if another transaction has changed an order since it was read.
var ErrChanged = errors.New("orders: the order has changed since it was read")

// ErrNotAnnounced is returned for a new epoch that was not announced first (ModeChanging).
var ErrNotAnnounced = errors.New("orders: the change of the sale's epoch was not announced")

// ErrPrecondition is returned to an operator if the sale does not meet a Precondition.
var ErrPrecondition = errors.New("orders: the sale does not meet the precondition of the change")
