package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"flashsale/inventory"
)

// sameMaster has the gates of all sales.
type sameMaster struct{ Gate }

func (sameMaster) Master(context.Context, string) (string, error) { return "a:1", nil }

// A master that comes and goes is neither down nor up again: only what threshold
// counts. Another master's state makes no difference.
func TestRedisHealthDoesNotFlap(t *testing.T) {
	h := redisHealth{log: slog.New(slog.DiscardHandler), threshold: contraryProbes, gate: sameMaster{}}
	down := func() bool { return h.gateUntrusted("S") }
	see := func(writes bool, times int) (changes int) {
		for n := range times {
			m := inventory.Master{Name: "a:1"}
			if !writes {
				m.Err = errors.New("no")
			}
			if h.observe([]inventory.Master{m, {Name: "b:1"}}) {
				changes++
			}
			if n == 0 && h.allDown() {
				t.Error("all masters are down, and one is up")
			}
		}
		return changes
	}
	blink := func(usual bool) {
		t.Helper()
		for range 100 {
			if see(!usual, contraryProbes-1)+see(usual, 1) > 0 || down() == usual {
				t.Fatalf("changed its mind though Redis is usually there: %t", usual)
			}
		}
	}
	blink(true)
	if see(false, contraryProbes) != 1 || !down() {
		t.Error("Redis has been away for long, and the master is not down")
	}
	blink(false)
	if see(true, contraryProbes) != 1 || down() {
		t.Error("Redis has been back for long, and the master is down")
	}
}
