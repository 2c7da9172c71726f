package orders

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a caller may be told, beside the refusals of package inventory.
var (
	ErrNotFound    = errors.New("orders: not found")
	ErrAlreadyPaid = errors.New("orders: already paid")
	ErrOrderClosed = errors.New("orders: order is closed")          // cancelled, expired or rejected
	ErrInProgress  = errors.New("orders: order is not durable yet") // still in the queue
	ErrBelowSold   = errors.New("orders: total would be below what is sold")
	ErrUnavailable = errors.New("orders: a dependency is not available") // outcome unknown, or nothing done: try again
)

// ErrOnItsWay tells an operator that the database has a change, and the gate may not
// have it yet. It comes with ErrUnavailable.
var ErrOnItsWay = errors.New("orders: the change is on its way to the gate")

// ErrFenced tells a keeper that another one has taken over.
var ErrFenced = errors.New("orders: fenced off by a newer keeper")

// InvalidError names every field that is wrong, and how.
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

// Fields collects what is wrong with a request. Nothing is, as a rule.
type Fields map[string]string

// Check notes what is wrong with the field name, unless ok is true.
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

// ErrHoldsNone is Store.Pay's answer for an order whose units are still to be taken.
var ErrHoldsNone = errors.New("orders: the order holds no units")

// ErrTakesUnits refuses an order without units of a sale whose orders hold units.
var ErrTakesUnits = errors.New("orders: the sale takes units on order")

// ErrNotDirect refuses a direct order of a sale that has a gate.
var ErrNotDirect = errors.New("orders: the sale is not sold in direct mode")

// ErrChanged refuses to end an order that is not as it was read.
var ErrChanged = errors.New("orders: the order has changed meanwhile")

// ErrNotAnnounced is returned if the end of the sale's epoch was not announced before
// (ModeChanging).
var ErrNotAnnounced = errors.New("orders: the change of the sale's epoch was not announced")

// ErrPrecondition refuses an operator's change of a sale that is not as If-Match says.
var ErrPrecondition = errors.New("orders: the sale is not as If-Match says")
