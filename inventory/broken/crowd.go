package broken

import (
	"context"
	"sync"
	"time"
)

const (
	// nearTheEnd is how many units must remain for callers to go on at once:
	// while there are more, the mistake does no harm.
	nearTheEnd = 8
	// patience is how long a caller waits for others; alonePause, how long it
	// takes until the next one goes without them.
	patience   = 250 * time.Millisecond
	alonePause = 50 * time.Millisecond
)

// A crowd directs the callers of one SKU so that the worst case, which a rush
// brings about now and then, happens every time: near the end everybody reads
// before anybody takes. It opens the door to readers and to takers by turns,
// so that what was read is exact, and lets the readers take once they want more
// than is left, together.
//
// Without it the last units could be taken, by chance, by just as many callers
// as there are units, and nothing would show.
type crowd struct {
	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, when anything below changes

	reading int       // callers who read
	waiting int       // callers who have read, and wait
	units   int64     // what those want
	left    int64     // what the latest of them has read, less what has been taken since
	taking  int       // callers who take
	turn    int       // how often all have gone
	alone   time.Time // when the last one went alone
}

func newCrowd() *crowd { return &crowd{changed: make(chan struct{})} }

// enter returns when the caller may read. Then it must meet or leave.
func (c *crowd) enter(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.taking > 0 {
		if err := c.wait(ctx, time.Minute); err != nil {
			return err
		}
	}
	c.reading++
	return nil
}

// leave is for a caller who has read and will not take.
func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	c.change()
}

// meet returns when the caller, who wants units and has read left of total,
// may take. Then it must call done.
//
// All go when they want more than is left by a fifth of the sale: units that
// are cancelled later would make good for fewer. Who has waited in vain settles
// for any more than is left. And if they want less, they go one by one.
func (c *crowd) meet(ctx context.Context, units, left, total int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	c.waiting++
	c.units += units
	c.left = left
	c.change()
	deadline, turn := time.Now().Add(patience), c.turn
	for {
		if c.turn != turn {
			return nil // with the others
		}
		if c.reading == 0 && c.taking == 0 {
			late := !time.Now().Before(deadline)
			rest := c.left - c.units
			switch {
			case rest > nearTheEnd, -rest >= 8+total/5, late && rest < 0:
				c.taking = c.waiting
				c.waiting, c.units = 0, 0
				c.turn++
				c.change()
				return nil
			case late && time.Since(c.alone) >= alonePause:
				c.alone = time.Now()
				c.taking++
				c.waiting--
				c.units -= units
				c.left -= units
				return nil
			}
		}
		most := time.Until(deadline)
		if most <= 0 {
			most = alonePause
		}
		if err := c.wait(ctx, most); err != nil && c.turn == turn {
			c.waiting--
			c.units -= units
			c.change()
			return err
		}
	}
}

// done is for a caller who has taken, or tried to.
func (c *crowd) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking--
	c.change()
}

func (c *crowd) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait gives the lock away until something changes, or for so long.
func (c *crowd) wait(ctx context.Context, most time.Duration) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
