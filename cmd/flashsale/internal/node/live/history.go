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
	// A saleHistory is what a node has seen of one sale.
	saleHistory struct {
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

// histories holds the histories of the sales that changed last. It also records while
// nobody watches, from the node's copy of the sales, which costs no query.
type histories struct {
	began, then time.Time // the node's start, and the last record
	last        map[string]seen
	sales       *lru.LRU[string, *saleHistory] // by SKU
}

func newHistories() histories {
	sales, _ := lru.NewLRU[string, *saleHistory](maxHistories, nil) // fails for a size below 1 only
	return histories{sales: sales}
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
		current := seen{sale.Total, sale.Sold, max(0, available), sale.State(now, available)}
		was, known := h.last[sale.SKU]
		last[sale.SKU] = current
		s, _ := h.sales.Peek(sale.SKU)
		if current != was {
			s = h.place(sale.SKU, now)
		}
		if s == nil {
			continue
		}
		since := h.then
		if !known {
			if since = sale.CreatedAt; since.After(h.began) { // nothing was sold before
				s.add(point{now.Truncate(time.Second).UnixMilli() - 1, sale.Total, 0})
			}
			was = seen{total: current.total}
		}
		fresh[sale.SKU] = s.note(sale, was, current, since, now)
		s.add(point{now.UnixMilli(), current.available, current.sold})
	}
	h.last, h.then = last, now
	return fresh
}

// place returns the history of a sale that has changed. If all places are taken, a new
// history replaces that of the sale that changed longest ago. If that sale has also just
// changed, place returns nil.
func (h *histories) place(sku string, now time.Time) *saleHistory {
	s, known := h.sales.Get(sku)
	if !known {
		if _, oldest, _ := h.sales.GetOldest(); h.sales.Len() == maxHistories && now.Sub(oldest.changed) < keptAtLeast {
			return nil
		}
		s = &saleHistory{}
		h.sales.Add(sku, s)
	}
	s.changed = now
	return s
}

// note adds the marks of what changed since the sale was last seen, and returns
// them. Units that come back and go again leave no second mark of "sold out".
func (s *saleHistory) note(sale *orders.Sale, was, current seen, since, now time.Time) (fresh []mark) {
	oldest := now.Add(-historyFor).UnixMilli()
	add := func(happened bool, at time.Time, what string, units int64) {
		ms := max(at.UnixMilli(), since.UnixMilli())
		if happened && ms >= oldest {
			fresh = append(fresh, mark{ms, what, units})
		}
	}
	before := was.state == "" || was.state == "scheduled"
	add(before && current.state != "scheduled", sale.OpensAt, "opened", current.total)
	add(current.total > was.total, now, "restocked", current.total-was.total)
	add(current.total < was.total, now, "cut", was.total-current.total)
	repeated := len(fresh) == 0 && len(s.marks) > 0 && s.marks[len(s.marks)-1].What == "sold_out"
	add(current.state == "sold_out" && was.state != "" && was.state != "sold_out" && !repeated, now, "sold_out", current.sold)
	add(current.state == "closed" && was.state != "closed", sale.ClosesAt, "closed", current.available)
	s.marks = slices.DeleteFunc(append(s.marks, fresh...), func(m mark) bool { return m.At < oldest })
	s.marks = s.marks[max(0, len(s.marks)-maxMarks):]
	return fresh
}

// add adds the point of a second, or replaces it. Of five the last stays.
func (s *saleHistory) add(p point) {
	if fine := s.points.fine; len(fine) > 0 && fine[len(fine)-1].At/1000 == p.At/1000 {
		s.points.fine = fine[:len(fine)-1]
	}
	s.points.add(p, func(five []point) point { return five[step-1] })
	s.text = nil
}

// event returns the history of sku, the first event of a stream. All watchers who
// come within a second share its bytes.
func (h *histories) event(sku string) []byte {
	s, _ := h.sales.Peek(sku)
	if s == nil {
		s = &saleHistory{}
	}
	if s.text == nil {
		// No points before it began: the node has not seen them.
		s.text = event("history", map[string]any{"sku": sku, "began": h.began, "points": s.points.all(), "marks": append([]mark{}, s.marks...)})
	}
	return s.text
}
