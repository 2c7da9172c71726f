package drill

import (
	"slices"
	"time"

	"flashsale/loadtest/judge"
)

// longestGap is the longest time in which no buyer heard a yes, from the first
// order until there was nothing left to sell, or the attack was over. A yes is the
// first 201 of an order: replays are no news, and a 202 promises nothing yet.
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
			yes := byOrder[r.Order.ID]
			earliest(&yes, r.End())
			byOrder[r.Order.ID] = yes
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
	yeses := []time.Time{end}
	for _, yes := range byOrder {
		yeses = append(yeses, yes)
	}
	slices.SortFunc(yeses, time.Time.Compare)
	for _, yes := range yeses {
		if !yes.After(end) {
			gap, last = max(gap, yes.Sub(last)), yes
		}
	}
	return gap
}
