package drill

import (
	"slices"
	"time"

	"flashsale/loadtest/judge"
)

// longestGap returns the longest time without an acceptance, from the first order until
// the sale was sold out or the attack ended. Only the first 201 of an order counts, not a
// replay, and not a 202.
func longestGap(requests []judge.Request, attack time.Duration) (gap time.Duration) {
	var first, soldOut time.Time
	earliest := func(t *time.Time, now time.Time) {
		if t.IsZero() || now.Before(*t) {
			*t = now
		}
	}
	byOrder := map[string]time.Time{}
	for _, r := range requests {
		switch {
		case r.Status == 201 && r.Order != nil:
			accepted := byOrder[r.Order.ID]
			earliest(&accepted, r.End())
			byOrder[r.Order.ID] = accepted
		case r.Code == "sold_out":
			earliest(&soldOut, r.End())
		}
		if r.Attack {
			earliest(&first, r.Sent)
		}
	}
	last, end := first, first.Add(attack)
	if !soldOut.IsZero() && soldOut.Before(end) {
		end = soldOut
	}
	acceptances := []time.Time{end}
	for _, accepted := range byOrder {
		acceptances = append(acceptances, accepted)
	}
	slices.SortFunc(acceptances, time.Time.Compare)
	for _, accepted := range acceptances {
		if !accepted.After(end) {
			gap, last = max(gap, accepted.Sub(last)), accepted
		}
	}
	return gap
}
