package variants

import (
	"context"
	"fmt"
	"time"
)

// Marks the work as done, then does it.
//
// What breaks it: the worker sets "processed" with SET NX, so that no unit is
// given back twice, and dies before the INCR. The work is delivered again. The
// marker is there, so it is taken for a duplicate and dropped. What was to keep
// it from happening twice keeps it from happening at all.
//
// Right: marker and work in one step. Best is work that is its own marker: a
// hold that is removed by the script that gives its units back.
//
// Seen in CCDD2022's seckill, where it loses orders as well.
var _ = show(Variant{
	Name:   "marker-first",
	Does:   "SET processed NX, then gives the units back",
	Breaks: "Whoever dies after the marker leaves work undone that everybody takes for done.",
	Source: "CCDD2022",
	Caught: "undersold",
	New: func(s Stores) Shop {
		c := newCounter(s)
		c.restore = func(ctx context.Context, o Order) error {
			marker := "shop:{" + o.SKU + "}:processed:" + o.ID
			first, err := c.Redis.SetNX(ctx, marker, 1, time.Hour).Result()
			if err != nil {
				return fmt.Errorf("mark %s: %w", o.ID, err)
			}
			if !first {
				return nil // a duplicate
			}
			// THE MISTAKE: what if nobody gets here?
			return c.giveBack(ctx, o)
		}
		return c
	},
})
