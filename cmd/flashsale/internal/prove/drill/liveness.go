package drill

import (
	"fmt"
	"math"
	"sync"
	"time"
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

// never is when sales are asked that nobody can sell.
const never = time.Duration(math.MaxInt64)

// A condition is what the nemesis has broken just now, and what may be asked
// of the service for all that. The numbers are reasons: two faults may cut the
// same node.
type condition struct {
	mu      sync.Mutex
	down    [nodeCount]int // the node does not run, or stands still
	noRedis [nodeCount]int
	noMySQL [nodeCount]int
	redis   int // takes no writes
	mysql   int
	cuts    [nodeCount]int // of the node's wire to Redis, whatever the reason
	pauses  []pause
	resting bool // nobody buys any more

	// Times of the storm's own life: seconds in which this process had the
	// processor and the disk. A machine that is busy with something else counts for
	// nothing.
	now     time.Duration
	askFrom time.Duration // no sale is asked before whether it sells
}

// A pause is when a node stood still. What was sent to it meanwhile is carried
// out when it goes on.
type pause struct {
	node     int
	from, to time.Time // to is zero while it lasts
}

// What a change of the condition is.
type change int

const (
	harm change = iota // something may have to be taken over
	mend               // nothing that sells is touched
	loss               // a store has lost something, or may have
)

// change notes harm or its end, and gives the service the time that it needs
// for that.
func (c *condition) change(kind change, what func(c *condition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	well := c.healthy()
	if what != nil {
		what(c)
	}
	switch {
	case c.healthy() && (kind == loss || !well):
		c.grant(mendsWithin)
	case c.healthy() && kind == mend:
	case c.healthy():
		c.grant(sellsWithin)
	case c.direct():
		c.grant(directWithin)
	default:
		c.askFrom = never
	}
}

// left tells what is still broken, or nil.
func (c *condition) left() error {
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
func (c *condition) grant(d time.Duration) {
	if c.askFrom == never || c.askFrom < c.now+d {
		c.askFrom = c.now + d
	}
}

// time is the storm's own.
func (c *condition) time() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// healthy tells whether one node runs and writes to both stores.
func (c *condition) healthy() bool {
	for i := range nodeCount {
		if c.redis+c.mysql+c.down[i]+c.noRedis[i]+c.noMySQL[i] == 0 {
			return true
		}
	}
	return false
}

// direct tells whether a node can sell without Redis, as none writes to it.
func (c *condition) direct() bool {
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
func (c *condition) well() (nodes []int) {
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

func (c *condition) paused(node int) {
	c.change(harm, func(c *condition) {
		c.down[node]++
		c.pauses = append(c.pauses, pause{node: node, from: time.Now()})
	})
}

func (c *condition) resumed(node int) {
	c.change(mend, func(c *condition) {
		c.down[node]--
		for i := range c.pauses {
			if p := &c.pauses[i]; p.node == node && p.to.IsZero() {
				p.to = time.Now()
			}
		}
	})
}

// over is when nothing more can come of a call: a deadline after it has ended,
// or after its node went on, if that stood still meanwhile.
func over(c *call, pauses []pause) time.Time {
	end := c.ended
	for _, p := range pauses {
		if p.node == c.node && p.from.Before(c.ended) && p.to.After(end) {
			end = p.to
		}
	}
	return end.Add(deadline)
}

// A life is how one sale has been getting on.
type life struct {
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
func (l *life) look(c *condition, rows, left int64) string {
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
func (l *life) refuses(c *condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.refused = true
}

// idle returns how long the sale has neither sold nor refused.
func (l *life) idle(c *condition) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now - l.last
}

// watched returns the share of the time in which buyers asked, averaged over the sales.
func (a *act) watched() float64 {
	a.condition.mu.Lock()
	defer a.condition.mu.Unlock()
	var asked, looked time.Duration
	for _, l := range a.lives {
		asked, looked = asked+l.asked, looked+l.looked
	}
	return asked.Seconds() / max(looked.Seconds(), watchEvery.Seconds())
}
