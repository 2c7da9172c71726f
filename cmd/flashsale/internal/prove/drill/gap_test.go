package drill

import (
	"fmt"
	"testing"
	"time"

	"flashsale/loadtest/judge"
)

// answered returns a request of the attack that was answered after this number of seconds.
func answered(order string, seconds float64, status int, code string) judge.Request {
	return judge.Request{
		Attack: true, Sent: time.Unix(1_800_000_000, 0), Latency: time.Duration(seconds * float64(time.Second)),
		Answer: judge.Answer{Status: status, Code: code, Order: &judge.Order{ID: order}},
	}
}

// acceptance returns a request that was answered 201.
func acceptance(order string, seconds float64) judge.Request {
	return answered(order, seconds, 201, "")
}

// A gap may be before, between or after acceptances, as long as units are left.
func TestLongestGap(t *testing.T) {
	for name, c := range map[string]struct {
		accepted []float64
		soldOut  float64 // 0 means never
		want     float64
	}{
		"in the middle":       {[]float64{1, 2, 5, 9}, 0, 4},
		"before the first":    {[]float64{6, 8}, 0, 6},
		"after the last":      {[]float64{1, 2, 3}, 0, 7},
		"no acceptance":       {nil, 0, 10},
		"sold out is no gap":  {[]float64{1, 2, 3}, 3.5, 1},
		"after the attack":    {[]float64{1, 15}, 0, 9},
		"none until sold out": {[]float64{4, 5}, 2, 2},
	} {
		requests := []judge.Request{answered("", 0, 429, "limited")} // the first request is refused
		for i, at := range c.accepted {
			requests = append(requests, acceptance(fmt.Sprint(i), at))
		}
		if c.soldOut > 0 {
			requests = append(requests, answered("", c.soldOut, 409, "sold_out"))
		}
		if got := longestGap(requests, 10*time.Second).Seconds(); got != c.want {
			t.Errorf("longest gap of %s: got %vs, want %vs", name, got, c.want)
		}
	}
}

// A replay, a 202, a refusal and a lookup do not end a gap. An acceptance after the attack
// does.
func TestLongestGapCountsFirstAcceptances(t *testing.T) {
	requests := []judge.Request{
		acceptance("a", 4), acceptance("a", 1), // the earlier one counts, the later one is the replay
		answered("b", 2, 202, ""), answered("c", 3, 409, "buyer_limit"), answered("b", 5, 200, ""),
	}
	if got := longestGap(requests, 10*time.Second); got != 9*time.Second {
		t.Errorf("longest gap: got %v, want 9s", got)
	}
	fresh := acceptance("d", 6)
	fresh.Attack = false
	if got := longestGap(append(requests, fresh), 10*time.Second); got != 5*time.Second {
		t.Errorf("longest gap with a fresh acceptance: got %v, want 5s", got)
	}
}
