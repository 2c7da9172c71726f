package drill

import (
	"fmt"
	"math"
	"sync"
	"time"

	"flashsale/loadtest/judge"
)

// How long a sale that has something left may stand still, from the last change
// of what is broken on.
const (
	sellsWithin = 2*stormLease + slack // one healthy node is left
	// Redis came back, or lost something: two comparisons find it.
	mendsWithin = 2*comparison + sellsWithin
	// No node can write to Redis: it takes up to twice --direct-after and the
	// timeout of one look until sales go direct.
	directWithin = 2*stormDirectAfter + time.Second + sellsWithin
)

// notNow is when sales are asked that nobody can sell.
const notNow = time.Duration(math.MaxInt64)

// A brokenState is what the faults have broken just now, and what may be asked
// of the service for all that. The numbers are reasons: two faults may cut the
// same node.
type brokenState struct {
	mu      sync.Mutex
	down    [nodeCount]int // the node does not run, or stands still
	noRedis [nodeCount]int
	noMySQL [nodeCount]int
	redis   int // takes no writes
	mysql   int
	cuts    [nodeCount]int // of the node's wire to Redis, whatever the reason
	pauses  []judge.Pause
	resting bool // nobody buys any more

	// Times of the storm's own life: seconds in which this process had the
	// processor and the disk. A machine that is busy with something else counts for
	// nothing.
	now     time.Duration
	askFrom time.Duration // no sale is asked before whether it sells
}

// What a change of the state is.
type change int

const (
	faulted change = iota // something may have to be taken over
	mended                // nothing that sells is touched
	lost                  // a store has lost something, or may have
)

// change notes a fault or its end, and gives the service the time that it needs
// for that.
func (c *brokenState) change(kind change, what func(c *brokenState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	well := c.healthy()
	if what != nil {
		what(c)
	}
	switch {
	case c.healthy() && (kind == lost || !well):
		c.grant(mendsWithin)
	case c.healthy() && kind == mended:
	case c.healthy():
		c.grant(sellsWithin)
	case c.direct():
		c.grant(directWithin)
	default:
		c.askFrom = notNow
	}
}

// left tells what is still broken, or nil.
func (c *brokenState) left() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none [nodeCount]int
	if c.redis != 0 || c.mysql != 0 || c.down != none || c.noRedis != none || c.noMySQL != none || c.cuts != none {
		return fmt.Errorf("not mended: Redis %d, MySQL %d, nodes down %v, without Redis %v or MySQL %v, cut %v",
			c.redis, c.mysql, c.down, c.noRedis, c.noMySQL, c.cuts)
	}
	return nil
}

// grant gives time from now on, and takes none away that was granted before.
func (c *brokenState) grant(d time.Duration) {
	if c.askFrom == notNow || c.askFrom < c.now+d {
		c.askFrom = c.now + d
	}
}

// time is the storm's own.
func (c *brokenState) time() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// healthy tells whether one node runs and writes to both stores.
func (c *brokenState) healthy() bool {
	for i := range nodeCount {
		if c.redis+c.mysql+c.down[i]+c.noRedis[i]+c.noMySQL[i] == 0 {
			return true
		}
	}
	return false
}

// direct tells whether a node can sell without Redis, as none writes to it.
func (c *brokenState) direct() bool {
	sells := false
	for i := range nodeCount {
		if c.down[i] > 0 {
			continue
		}
		if c.redis+c.noRedis[i] == 0 {
			return false
		}
		sells = sells || c.mysql+c.noMySQL[i] == 0
	}
	return sells
}

// well are the nodes that run and reach MySQL, the healthy ones first.
func (c *brokenState) well() (nodes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var others []int
	for i := range nodeCount {
		switch {
		case c.down[i]+c.noMySQL[i] > 0:
		case c.noRedis[i] > 0:
			others = append(others, i)
		default:
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return others
	}
	return nodes
}

// paused notes that a node stands still, or with -1 that it has resumed. Callers hold mu.
func (c *brokenState) paused(node, by int) {
	c.down[node] += by
	if by > 0 {
		c.pauses = append(c.pauses, judge.Pause{Node: node, From: time.Now()})
		return
	}
	for i := range c.pauses {
		if p := &c.pauses[i]; p.Node == node && p.To.IsZero() {
			p.To = time.Now()
		}
	}
}

// A liveness is how one sale has been getting on.
type liveness struct {
	sku     string
	rows    int64         // durable orders
	soldOut bool          // nothing was left at the last look
	refused bool          // a buyer received a final refusal since the last look
	last    time.Duration // when the sale last sold, or refused because it was sold out
	gap     time.Duration // the longest time without a sale or refusal, while buyers asked

	looked, asked time.Duration // time of the last look; time in which buyers asked
}

// look judges the sale by its rows in the database: a sale with units left must sell, and
// a sale without units must refuse. It returns a description of the failure, or "".
func (l *liveness) look(c *brokenState, rows, left int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resting {
		return ""
	}
	passed, soldOut := c.now-l.looked, left <= 0
	if rows > l.rows || soldOut != l.soldOut || soldOut && l.refused {
		l.last = c.now
	}
	l.looked, l.rows, l.soldOut, l.refused = c.now, max(rows, l.rows), soldOut, false
	if c.now < c.askFrom {
		return ""
	}
	l.asked += passed
	idle := c.now - l.last
	l.gap = max(l.gap, idle)
	if idle <= sellsWithin {
		return ""
	}
	what := "sold nothing"
	if soldOut {
		what = "refused nobody"
	}
	return fmt.Sprintf("stands still: %s has %s for %.1fs, with %d units left and a node that is well", l.sku, what, idle.Seconds(), left)
}

// refuses records that a buyer received a final refusal.
func (l *liveness) refuses(c *brokenState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.refused = true
}

// idle returns how long the sale has neither sold nor refused.
func (l *liveness) idle(c *brokenState) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now - l.last
}

// watched returns the share of the time in which buyers asked, averaged over the sales.
func (a *round) watched() float64 {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	var asked, looked time.Duration
	for _, l := range a.liveness {
		asked, looked = asked+l.asked, looked+l.looked
	}
	return asked.Seconds() / max(looked.Seconds(), watchEvery.Seconds())
}
