package inventory

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of calls to the gate. Most of them are reasons of a Refusal. Compare them with
// errors.Is.
var (
	ErrSoldOut    = errors.New("inventory: sold out")                              // fewer units are left than the order asks for
	ErrBuyerLimit = errors.New("inventory: buyer's limit reached")                 // the buyer would have more units than the sale allows
	ErrNotOpen    = errors.New("inventory: sale not open yet")                     // Redis's clock is before opens_at
	ErrClosed     = errors.New("inventory: sale closed")                           // Redis's clock is at or after closes_at
	ErrMismatch   = errors.New("inventory: idempotency key used for another body") // the fingerprint differs
	ErrInvalid    = errors.New("inventory: invalid reservation")                   // no order id, no buyer, or a quantity below 1
	ErrBusy       = errors.New("inventory: the queue of the sale is full")         // the database commits too slowly
	ErrNoGate     = errors.New("inventory: Redis has no gate of the sale")         // Redis has no gate of the SKU, and the keeper must rebuild it
	ErrRebuilding = errors.New("inventory: the gate is being rebuilt")
	ErrStale      = errors.New("inventory: the gate is stale, because Redis may have lost orders") // see replid.go
	// ErrCoolingDown is an ErrSoldOut that lasts at most about 100 ms, because units have
	// been released to an empty gate (cooldown.lua).
	ErrCoolingDown = fmt.Errorf("%w until the units just released can be sold", ErrSoldOut)
	// ErrEpoch is returned to a keeper whose call names the epoch of another gate.
	ErrEpoch = errors.New("inventory: the gate has another epoch than the call")
	// ErrLate is returned if a call reached Redis after its deadline. The call did
	// nothing, and the caller may repeat it.
	ErrLate = errors.New("inventory: the call reached Redis after its deadline")
)

// A Refusal describes why the gate refused an order. If KnowsBuyer is set, the request may be
// the replay of an order that has left the queue.
type Refusal struct {
	Reason     error
	KnowsBuyer bool // the buyer has had an order of this SKU
	Final      bool // the reason lies in the sale or the buyer, not in the state of the gate
}

func (r *Refusal) Error() string { return r.Reason.Error() }
func (r *Refusal) Unwrap() error { return r.Reason }

// refusals maps each outcome code of reserve.lua to its Refusal. The refusals are made
// once, because a sold-out sale returns very many of them.
var refusals = func() map[int64]*Refusal {
	byCode := map[int64]*Refusal{}
	for code, reason := range map[int64]error{
		-1: ErrNoGate, -2: ErrRebuilding, -3: ErrBusy, -4: ErrInvalid, -5: ErrStale,
		-20: ErrNotOpen, -21: ErrClosed, -22: ErrBuyerLimit, -23: ErrSoldOut, -24: ErrMismatch, -25: ErrCoolingDown,
	} {
		byCode[code] = &Refusal{Reason: reason, Final: code <= -20}
		byCode[code-100] = &Refusal{Reason: reason, Final: code <= -20, KnowsBuyer: true}
	}
	return byCode
}()

// scriptError converts an error reply of a keeper's script to this package's errors, and
// adds the operation and the SKU.
func scriptError(operation, sku string, err error) error {
	if err == nil {
		return nil
	}
	for prefix, sentinel := range map[string]error{"EPOCH": ErrEpoch, "NOGATE": ErrNoGate} {
		if strings.HasPrefix(err.Error(), prefix) {
			err = sentinel
		}
	}
	return fmt.Errorf("%s %s: %w", operation, sku, err)
}
