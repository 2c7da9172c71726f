package keeper

import (
	"testing"
	"time"

	"flashsale/inventory"
)

func TestCommitLag(t *testing.T) {
	ahead, began := 7*time.Minute, time.Now()
	c := Commit{Began: began, Took: time.Second}
	if _, known := c.Lag(inventory.QueuedOrder{AcceptedAt: began}); known {
		t.Error("lag without the offset of Redis's clock: got a lag, want none")
	}
	c.ClockOffset = &ahead
	for before, want := range map[time.Duration]time.Duration{2 * time.Second: 3 * time.Second, -time.Millisecond: time.Second} {
		if lag, known := c.Lag(inventory.QueuedOrder{AcceptedAt: began.Add(ahead - before)}); !known || lag != want {
			t.Errorf("lag of an order reserved %v before the commit began: got %v, known %v, want %v, true", before, lag, known, want)
		}
	}
}
