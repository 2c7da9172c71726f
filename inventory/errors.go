package inventory

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of calls to the gate, most of them reasons to refuse a reservation. Compare with
// errors.Is.
var (
	ErrSoldOut    = errors.New("inventory: sold out")                              // fewer units left than asked for
	ErrBuyerLimit = errors.New("inventory: buyer's limit reached")                 // the buyer would hold more than the sale allows
	ErrNotOpen    = errors.New("inventory: sale not open yet")                     // before opens_at, by Redis's clock
	ErrClosed     = errors.New("inventory: sale closed")                           // at or after closes_at
	ErrMismatch   = errors.New("inventory: idempotency key used for another body") // same key, another fingerprint
	ErrInvalid    = errors.New("inventory: invalid reservation")                   // no id, no buyer, or a quantity below 1
	ErrBusy       = errors.New("inventory: queue full")                            // the database does not keep up
	ErrNoGate     = errors.New("inventory: no gate")                               // Redis does not know the SKU: to be rebuilt
	ErrRebuilding = errors.New("inventory: gate is being rebuilt")
	ErrStale      = errors.New("inventory: gate may have forgotten orders") // Redis may have lost writes: see replid.go
	// ErrCoolingDown is an ErrSoldOut that ends within about 100 ms, because units have
	// returned to an empty gate: see cooldown.lua.
	ErrCoolingDown = fmt.Errorf("%w until units that came back are on sale", ErrSoldOut)
	// ErrEpoch is returned if a keeper's call names another epoch than that of the gate.
	ErrEpoch = errors.New("inventory: gate is of another epoch")
	// ErrLate is returned if a call reached Redis after its deadline. The call did
	// nothing, and the caller may repeat it.
	ErrLate = errors.New("inventory: call reached Redis after its deadline")
)

// A Refusal describes why the gate did not accept an order. If Known is set, the request
// may be the replay of an order that has left the queue.
type Refusal struct {
	Reason error
	Known  bool // the buyer has had an order of this SKU
	Final  bool // the reason is the sale or the buyer, and not the state of the gate
}

func (r *Refusal) Error() string { return r.Reason.Error() }
func (r *Refusal) Unwrap() error { return r.Reason }

// The outcome codes of reserve.lua, and the refusals made of them once: a
// refusal on the hot path allocates nothing.
var refusals = func() map[int64]*Refusal {
	byCode := map[int64]*Refusal{}
	for code, reason := range map[int64]error{
		-1: ErrNoGate, -2: ErrRebuilding, -3: ErrBusy, -4: ErrInvalid, -5: ErrStale,
		-20: ErrNotOpen, -21: ErrClosed, -22: ErrBuyerLimit, -23: ErrSoldOut, -24: ErrMismatch, -25: ErrCoolingDown,
	} {
		byCode[code] = &Refusal{Reason: reason, Final: code <= -20}
		byCode[code-100] = &Refusal{Reason: reason, Final: code <= -20, Known: true}
	}
	return byCode
}()

// scriptError turns the error replies of the keeper's scripts into this package's
// errors, and adds the operation and the SKU.
func scriptError(doing, sku string, err error) error {
	if err == nil {
		return nil
	}
	for prefix, sentinel := range map[string]error{"EPOCH": ErrEpoch, "NOGATE": ErrNoGate} {
		if strings.HasPrefix(err.Error(), prefix) {
			err = sentinel
		}
	}
	return fmt.Errorf("%s %s: %w", doing, sku, err)
}
