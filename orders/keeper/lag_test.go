package keeper

import (
	"testing"
	"time"

	"flashsale/inventory"
)

func TestLag(t *testing.T) {
	ahead, began := 7*time.Minute, time.Now()
	c := Commit{Began: began, Took: time.Second}
	if _, known := c.Lag(inventory.Queued{At: began}); known {
		t.Error("the lag is known, and Redis's clock is not")
	}
	c.ClockOffset = &ahead
	for before, want := range map[time.Duration]time.Duration{2 * time.Second: 3 * time.Second, -time.Millisecond: time.Second} {
		if lag, known := c.Lag(inventory.Queued{At: began.Add(ahead - before)}); !known || lag != want {
			t.Errorf("reserved %v before the transaction began: lag %v, %v, want %v", before, lag, known, want)
		}
	}
}
