package variants

import (
	"context"
	"fmt"
	"time"
)

// Marks the work as done, then does it.
//
// What breaks it: the worker sets "processed" with SET NX, so that no unit is
// released twice, and crashes before the INCR. The work is delivered again. The
// marker exists, so the work is dropped as a duplicate. The guard against doing it
// twice prevents it from being done at all.
//
// Right: marker and work in one step. Best is work that is its own marker: a hold
// that is removed by the script that releases its units.
//
// Seen in CCDD2022's seckill, where it loses orders as well.
var _ = show(Variant{
	Name:   "marker-first",
	Does:   "SET processed NX, then releases the units",
	Breaks: "A crash after the marker leaves work that is marked as done and was not done.",
	Source: "CCDD2022",
	Caught: "undersold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.release = func(ctx context.Context, o Order) error {
			marker := "shop:{" + o.SKU + "}:processed:" + o.ID
			first, err := c.Redis.SetNX(ctx, marker, 1, time.Hour).Result()
			if err != nil {
				return fmt.Errorf("set the marker of order %s: %w", o.ID, err)
			}
			if !first {
				return nil // a duplicate
			}
			// THE MISTAKE: a crash here leaves the marker without the work.
			return c.releaseHold(ctx, o)
		}
		return c
	},
})
