package drill

import (
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// yes is the answer to a request of the attack, so many seconds after its start.
func yes(order string, seconds float64) judge.Request {
	start := time.Unix(1_800_000_000, 0)
	return judge.Request{
		Attack: true, Sent: start, Latency: time.Duration(seconds * float64(time.Second)),
		Answer: judge.Answer{Status: 201, Order: &judge.Order{ID: order}},
	}
}

// The gap is that between two yeses, before the first or after the last, as
// long as there is something to sell.
func TestLongestGap(t *testing.T) {
	for name, c := range map[string]struct {
		yeses   []float64
		soldOut float64 // 0: never
		want    float64
	}{
		"in the middle":       {[]float64{1, 2, 5, 9}, 0, 4},
		"before the first":    {[]float64{6, 8}, 0, 6},
		"after the last":      {[]float64{1, 2, 3}, 0, 7},
		"none at all":         {nil, 0, 10},
		"sold out is no gap":  {[]float64{1, 2, 3}, 3.5, 1},
		"late yeses are late": {[]float64{1, 15}, 0, 9},
		"none before the end": {[]float64{4, 5}, 2, 2},
	} {
		limited := yes("", 0)
		limited.Answer = judge.Answer{Status: 429, Code: "limited"} // the first request, and no yes
		requests := []judge.Request{limited}
		for i, at := range c.yeses {
			requests = append(requests, yes(fmt.Sprint(i), at))
		}
		if c.soldOut > 0 {
			no := yes("", c.soldOut)
			no.Answer = judge.Answer{Status: 409, Code: "sold_out"}
			requests = append(requests, no)
		}
		if got := longestGap(requests, 10*time.Second).Seconds(); got != c.want {
			t.Errorf("%s: %vs, want %vs", name, got, c.want)
		}
	}
}

// A replay of a yes, a 202, another no and a look at an order are no news. A yes
// after the attack is one all the same, to an order of the attack or not.
func TestLongestGapCountsNewYeses(t *testing.T) {
	other := func(r judge.Request, status int, code string) judge.Request {
		r.Status, r.Code = status, code
		return r
	}
	requests := []judge.Request{
		yes("a", 4), yes("a", 1), // in the order of their ends, the second is the replay
		other(yes("b", 2), 202, ""), other(yes("c", 3), 409, "buyer_limit"), other(yes("b", 5), 200, ""),
	}
	if got := longestGap(requests, 10*time.Second); got != 9*time.Second {
		t.Errorf("%v, want 9s", got)
	}
	fresh := yes("d", 6)
	fresh.Attack = false
	if got := longestGap(append(requests, fresh), 10*time.Second); got != 5*time.Second {
		t.Errorf("%v, want 5s", got)
	}
}
