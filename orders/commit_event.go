package orders

import (
	"time"

	"flashsale/inventory"
)

// A Commit is what a keeper carried over at once, as Config.OnCommit hears of
// it. Its transaction may be one that other keepers share (convoy.go), and Took
// has the wait for that.
type Commit struct {
	SKU    string
	Fence  int64
	Orders []inventory.Queued // that were carried over; not to be changed
	Began  time.Time          // by this process's clock, as all that follows
	Took   time.Duration
	Err    error // not all of it is durable; unless ErrFenced, it may yet be

	ahead *time.Duration // Redis's clock, less this one's
}

// Reserved tells when the gate took the units of one of the orders: to about a
// millisecond, and never after Began. False: it is not known yet how far Redis's
// clock and this one are apart.
func (c *Commit) Reserved(o inventory.Queued) (time.Time, bool) {
	if c.ahead == nil {
		return time.Time{}, false
	}
	at := o.At.Add(-*c.ahead)
	if at.After(c.Began) {
		at = c.Began
	}
	return at, true
}

// Lag is how long after its units were taken an order was durable.
func (c *Commit) Lag(o inventory.Queued) (time.Duration, bool) {
	at, known := c.Reserved(o)
	return c.Began.Add(c.Took).Sub(at), known
}
