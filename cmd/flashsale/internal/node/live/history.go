package live

import (
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"flashsale/orders"
)

// How much of a sale a node keeps: a series of points, and the marks of ten minutes.
// A sale takes at most 35 kB: 220 points of 24 bytes, 200 marks of 32, and the text of
// both where somebody has come to watch. All sales take at most 3.5 MB.
const (
	historyFor   = 10 * time.Minute
	maxHistories = 100         // sales
	maxMarks     = 200         // of one sale
	keptAtLeast  = time.Minute // the place of a sale that has changed
)

type (
	// A point is the stock at a moment. While somebody watches, Available is what the
	// gate says; otherwise it is the total less the units of stored orders.
	point struct {
		At        int64 `json:"at"` // ms since 1970, by the database's clock
		Available int64 `json:"available"`
		Sold      int64 `json:"sold"`
	}
	// A mark is something that happened to the sale as a whole.
	mark struct {
		At    int64  `json:"at"`
		What  string `json:"what"` // opened, sold_out, restocked, cut, closed
		Units int64  `json:"units"`
	}
	// A course is what a node has seen of one sale.
	course struct {
		points  series[point]
		marks   []mark
		changed time.Time
		text    []byte // the event, nil where nobody has asked for it since the last point
	}
	// seen is what a sale looked like a second ago.
	seen struct {
		total, sold, available int64
		state                  string
	}
)

// histories are the courses of the sales that changed last. They are kept while
// nobody watches, too, from the node's copy of the sales: that costs no query.
type histories struct {
	began, then time.Time // the node's start, and the last record
	last        map[string]seen
	courses     *lru.LRU[string, *course] // by SKU
}

func newHistories() histories {
	courses, _ := lru.NewLRU[string, *course](maxHistories, nil) // fails for a size below 1 only
	return histories{courses: courses}
}

// record adds a second: all sales that the node knows, and the offers of those
// that somebody watches. It returns the new marks by SKU.
func (h *histories) record(now time.Time, sales []orders.Sale, offers []orders.Offer) map[string][]mark {
	watched := map[string]int64{}
	for _, offer := range offers {
		watched[offer.SKU] = offer.Available
	}
	last, fresh := make(map[string]seen, len(sales)), map[string][]mark{}
	for i := range sales {
		sale := &sales[i]
		available, isWatched := watched[sale.SKU]
		if !isWatched {
			available = sale.Total - sale.Sold
		}
		is := seen{sale.Total, sale.Sold, max(0, available), sale.State(now, available)}
		was, known := h.last[sale.SKU]
		last[sale.SKU] = is
		c, _ := h.courses.Peek(sale.SKU)
		if is != was {
			c = h.place(sale.SKU, now)
		}
		if c == nil {
			continue
		}
		since := h.then
		if !known {
			if since = sale.CreatedAt; since.After(h.began) { // nothing was sold before
				c.add(point{now.Truncate(time.Second).UnixMilli() - 1, sale.Total, 0})
			}
			was = seen{total: is.total}
		}
		fresh[sale.SKU] = c.note(sale, was, is, since, now)
		c.add(point{now.UnixMilli(), is.available, is.sold})
	}
	h.last, h.then = last, now
	return fresh
}

// place is the course of a sale that has changed. Where all places are taken a new one
// takes that of the sale that changed longest ago, unless that one changed a moment ago
// as well: then place returns nil.
func (h *histories) place(sku string, now time.Time) *course {
	c, known := h.courses.Get(sku)
	if !known {
		if _, oldest, _ := h.courses.GetOldest(); h.courses.Len() == maxHistories && now.Sub(oldest.changed) < keptAtLeast {
			return nil
		}
		c = &course{}
		h.courses.Add(sku, c)
	}
	c.changed = now
	return c
}

// note adds the marks of what changed since the sale was last seen, and returns
// them. Units that come back and go again leave no second mark of "sold out".
func (c *course) note(sale *orders.Sale, was, is seen, since, now time.Time) (fresh []mark) {
	oldest := now.Add(-historyFor).UnixMilli()
	add := func(happened bool, at time.Time, what string, units int64) {
		ms := max(at.UnixMilli(), since.UnixMilli())
		if happened && ms >= oldest {
			fresh = append(fresh, mark{ms, what, units})
		}
	}
	before := was.state == "" || was.state == "scheduled"
	add(before && is.state != "scheduled", sale.OpensAt, "opened", is.total)
	add(is.total > was.total, now, "restocked", is.total-was.total)
	add(is.total < was.total, now, "cut", was.total-is.total)
	again := len(fresh) == 0 && len(c.marks) > 0 && c.marks[len(c.marks)-1].What == "sold_out"
	add(is.state == "sold_out" && was.state != "" && was.state != "sold_out" && !again, now, "sold_out", is.sold)
	add(is.state == "closed" && was.state != "closed", sale.ClosesAt, "closed", is.available)
	c.marks = slices.DeleteFunc(append(c.marks, fresh...), func(m mark) bool { return m.At < oldest })
	c.marks = c.marks[max(0, len(c.marks)-maxMarks):]
	return fresh
}

// add adds the point of a second, or replaces it. Of five the last stays.
func (c *course) add(p point) {
	if fine := c.points.fine; len(fine) > 0 && fine[len(fine)-1].At/1000 == p.At/1000 {
		c.points.fine = fine[:len(fine)-1]
	}
	c.points.add(p, func(five []point) point { return five[step-1] })
	c.text = nil
}

// event is the course of sku, the first event of a stream. All who come within
// a second share its bytes.
func (h *histories) event(sku string) []byte {
	c, _ := h.courses.Peek(sku)
	if c == nil {
		c = &course{}
	}
	if c.text == nil {
		// No points before it began: the node has not seen them.
		c.text = event("history", map[string]any{"sku": sku, "began": h.began, "points": c.points.all(), "marks": append([]mark{}, c.marks...)})
	}
	return c.text
}
