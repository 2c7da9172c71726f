package drill

import (
	"fmt"
	"math"
	"sync"
	"time"

	"flashsale/loadtest/judge"
)

// Bounds of how long a sale may stand still after the last change of the state.
const (
	sellsWithin = 2*stormLease + slack // at least one node is healthy
	// mendsWithin applies after Redis returns or loses data: two comparisons find it.
	mendsWithin = 2*comparison + sellsWithin
	// directWithin applies if no node can write to Redis. Direct mode begins after up to
	// twice --direct-after plus the timeout of one check.
	directWithin = 2*stormDirectAfter + time.Second + sellsWithin
)

// notExpected is the value of expectFrom while no node can sell.
const notExpected = time.Duration(math.MaxInt64)

// A brokenState records what the faults have broken at the moment, and from when on sales
// must sell again. Its numbers count reasons, because two faults may cut the same node.
type brokenState struct {
	mu            sync.Mutex
	down          [nodeCount]int // the node is stopped or paused
	noRedis       [nodeCount]int
	noMySQL       [nodeCount]int
	redis         int // Redis accepts no writes
	mysql         int
	cuts          [nodeCount]int // cuts of the node's wire to Redis
	pauses        []judge.Pause
	buyersStopped bool

	// Times are in the storm's own time: seconds in which this process had the processor
	// and the disk. If the machine is busy with other work, the storm's time stands still.
	now        time.Duration
	expectFrom time.Duration // sales must sell from this time on
}

// A change is the kind of a fault or repair. It determines how long the service may take to
// recover.
type change int

const (
	faulted change = iota // another node may have to take over
	mended                // a repair that does not affect nodes that sell
	lost                  // a store may have lost something
)

// change records a fault or its end, and gives the service the time that it needs to
// recover.
func (c *brokenState) change(kind change, what func(c *brokenState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasHealthy := c.healthy()
	if what != nil {
		what(c)
	}
	switch {
	case c.healthy() && (kind == lost || !wasHealthy):
		c.grant(mendsWithin)
	case c.healthy() && kind == mended:
	case c.healthy():
		c.grant(sellsWithin)
	case c.direct():
		c.grant(directWithin)
	default:
		c.expectFrom = notExpected
	}
}

// unrepaired returns an error that describes what is still broken, or nil.
func (c *brokenState) unrepaired() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none [nodeCount]int
	if c.redis != 0 || c.mysql != 0 || c.down != none || c.noRedis != none || c.noMySQL != none || c.cuts != none {
		return fmt.Errorf("faults are not repaired: Redis %d, MySQL %d, nodes down %v, without Redis %v, without MySQL %v, cut off %v",
			c.redis, c.mysql, c.down, c.noRedis, c.noMySQL, c.cuts)
	}
	return nil
}

// grant allows d from now on. It never shortens the time granted before.
func (c *brokenState) grant(d time.Duration) {
	if c.expectFrom == notExpected || c.expectFrom < c.now+d {
		c.expectFrom = c.now + d
	}
}

// time returns the storm's own time.
func (c *brokenState) time() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// healthy reports whether a node runs and can write to both stores.
func (c *brokenState) healthy() bool {
	for i := range nodeCount {
		if c.redis+c.mysql+c.down[i]+c.noRedis[i]+c.noMySQL[i] == 0 {
			return true
		}
	}
	return false
}

// direct reports whether a node can sell in direct mode because no node can write to Redis.
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

// usable returns the nodes that run and reach MySQL. It prefers nodes that also reach Redis.
func (c *brokenState) usable() (nodes []int) {
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

// paused records that a node is paused, or with -1 that it has resumed. Callers hold mu.
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

// A liveness records the progress of one sale.
type liveness struct {
	sku     string
	rows    int64         // durable orders
	soldOut bool          // no unit was left at the last observation
	refused bool          // a buyer received a final refusal since the last observation
	last    time.Duration // time of the last order, or of the last refusal while sold out
	gap     time.Duration // longest time without a sale or a refusal while the sale was watched

	looked, asked time.Duration // time of the last observation; total time watched
}

// observe judges the sale by its rows in the database. A sale with units left must sell,
// and a sale without units must refuse. observe returns a description of a failure, or "".
func (l *liveness) observe(c *brokenState, rows, left int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buyersStopped {
		return ""
	}
	passed, soldOut := c.now-l.looked, left <= 0
	if rows > l.rows || soldOut != l.soldOut || soldOut && l.refused {
		l.last = c.now
	}
	l.looked, l.rows, l.soldOut, l.refused = c.now, max(rows, l.rows), soldOut, false
	if c.now < c.expectFrom {
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
		what = "refused no buyer"
	}
	return fmt.Sprintf("stands still: %s has %s for %.1fs, with %d units left and a healthy node", l.sku, what, idle.Seconds(), left)
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

// watched returns the share of the time in which liveness was checked, over all sales.
func (a *round) watched() float64 {
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	var asked, looked time.Duration
	for _, l := range a.liveness {
		asked, looked = asked+l.asked, looked+l.looked
	}
	return asked.Seconds() / max(looked.Seconds(), watchEvery.Seconds())
}
