package live

import (
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"flashsale/orders"
)

// Limits of the histories. A history takes at most 35 kB: 220 points of 24 bytes, 200
// marks of 32 bytes, and the JSON text of both. All histories take at most 3.5 MB.
const (
	historyFor   = 10 * time.Minute
	maxHistories = 100         // sales with a history
	maxMarks     = 200         // marks per sale
	keptAtLeast  = time.Minute // a sale that changed within this time keeps its history
)

type (
	// A point is the stock at a moment. If the sale is watched, Available is the stock of
	// the gate. Otherwise it is the total minus the units of stored orders.
	point struct {
		At        int64 `json:"at"` // ms since 1970, by the database's clock
		Available int64 `json:"available"`
		Sold      int64 `json:"sold"`
	}
	// A mark is an event of a sale.
	mark struct {
		At    int64  `json:"at"`
		What  string `json:"what"` // opened, sold_out, restocked, cut, closed
		Units int64  `json:"units"`
	}
	// A saleHistory holds the recent points and marks of one sale.
	saleHistory struct {
		points  series[point]
		marks   []mark
		changed time.Time // last change of the sale
		text    []byte    // cached event, nil after a new point
	}
	// seen is the state of a sale one second ago.
	seen struct {
		total, sold, available int64
		state                  string
	}
)

// histories holds the histories of the sales that changed last. Sales without watchers are
// recorded from the node's copy of the sales, which costs no query.
type histories struct {
	began, then time.Time // start of the node, and time of the last record
	last        map[string]seen
	sales       *lru.LRU[string, *saleHistory] // by SKU
}

func newHistories() histories {
	sales, _ := lru.NewLRU[string, *saleHistory](maxHistories, nil) // an error means a size below 1
	return histories{sales: sales}
}

// record adds the current second of all sales. offers are the watched sales. record
// returns the new marks by SKU.
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
			was = seen{total: current.total}
			if since = sale.CreatedAt; since.After(h.began) {
				// The sale is new: all units were sold since its creation.
				s.add(point{now.Truncate(time.Second).UnixMilli() - 1, sale.Total, 0})
				was.state = "scheduled"
			}
		}
		fresh[sale.SKU] = s.note(sale, was, current, since, now)
		s.add(point{now.UnixMilli(), current.available, current.sold})
	}
	h.last, h.then = last, now
	return fresh
}

// place returns the history of a sale that has changed. If the sale has none and there are
// maxHistories already, its history replaces the least recently changed history. If that history
// changed less than keptAtLeast ago, place returns nil.
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

// note adds marks for the changes between was and current, and returns them. If released
// units sell again, there is no second mark "sold_out".
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

// add adds the point of a second, or replaces the point of the same second. Of five
// seconds it keeps the last point.
func (s *saleHistory) add(p point) {
	if fine := s.points.fine; len(fine) > 0 && fine[len(fine)-1].At/1000 == p.At/1000 {
		s.points.fine = fine[:len(fine)-1]
	}
	s.points.add(p, func(five []point) point { return five[step-1] })
	s.text = nil
}

// event returns the history of a sale, which is the first event of a stream. Watchers
// that come within the same second share its bytes.
func (h *histories) event(sku string) []byte {
	s, _ := h.sales.Peek(sku)
	if s == nil {
		s = &saleHistory{}
	}
	if s.text == nil {
		// There are no points before began, when the node started.
		s.text = event("history", map[string]any{"sku": sku, "began": h.began, "points": s.points.all(), "marks": append([]mark{}, s.marks...)})
	}
	return s.text
}
