package drill

import (
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// told is the answer to a request of the attack, so many seconds after its start.
func told(order string, seconds float64, status int, code string) judge.Request {
	return judge.Request{
		Attack: true, Sent: time.Unix(1_800_000_000, 0), Latency: time.Duration(seconds * float64(time.Second)),
		Answer: judge.Answer{Status: status, Code: code, Order: &judge.Order{ID: order}},
	}
}

// yes is an acceptance.
func yes(order string, seconds float64) judge.Request { return told(order, seconds, 201, "") }

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
		requests := []judge.Request{told("", 0, 429, "limited")} // the first request, and no yes
		for i, at := range c.yeses {
			requests = append(requests, yes(fmt.Sprint(i), at))
		}
		if c.soldOut > 0 {
			requests = append(requests, told("", c.soldOut, 409, "sold_out"))
		}
		if got := longestGap(requests, 10*time.Second).Seconds(); got != c.want {
			t.Errorf("%s: %vs, want %vs", name, got, c.want)
		}
	}
}

// A replay of a yes, a 202, another no and a look at an order are no news. A yes
// after the attack is one all the same, to an order of the attack or not.
func TestLongestGapCountsNewYeses(t *testing.T) {
	requests := []judge.Request{
		yes("a", 4), yes("a", 1), // in the order of their ends, the second is the replay
		told("b", 2, 202, ""), told("c", 3, 409, "buyer_limit"), told("b", 5, 200, ""),
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
