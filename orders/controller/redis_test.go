package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"flashsale/inventory"
)

// sameMaster is a Gate with all sales on one master.
type sameMaster struct{ Gate }

func (sameMaster) MasterOf(context.Context, string) (string, error) { return "a:1", nil }

// Short outages do not change the state of a master, and short recoveries do not either. The
// state of another master does not matter.
func TestRedisHealthDoesNotFlap(t *testing.T) {
	h := redisHealth{log: slog.New(slog.DiscardHandler), threshold: contraryProbes, gate: sameMaster{}}
	down := func() bool { return h.gateUntrusted("S") }
	probe := func(writes bool, times int) (changes int) {
		for n := range times {
			m := inventory.Master{Name: "a:1"}
			if !writes {
				m.Err = errors.New("read only")
			}
			if h.observe([]inventory.Master{m, {Name: "b:1"}}) {
				changes++
			}
			if n == 0 && h.allDown() {
				t.Error("health of the masters: got all masters down although b:1 is up")
			}
		}
		return changes
	}
	interrupt := func(usual bool) {
		t.Helper()
		for range 100 {
			if probe(!usual, contraryProbes-1)+probe(usual, 1) > 0 || down() == usual {
				t.Fatalf("health after a short interruption: got a changed state, want none; usually up: %t", usual)
			}
		}
	}
	interrupt(true)
	if probe(false, contraryProbes) != 1 || !down() {
		t.Error("master after a long outage: got it up, want down")
	}
	interrupt(false)
	if probe(true, contraryProbes) != 1 || down() {
		t.Error("master after a long recovery: got it down, want up")
	}
}
