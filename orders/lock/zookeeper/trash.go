package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// throw has a node removed as soon as possible.
func (c *Client) throw(n node) { c.trash.Store(n, true) }

// sweep removes what is in the trash, until ctx ends.
func (c *Client) sweep(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Lease / 12)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for n := range c.trash.Range {
			if c.remove(ctx, n.(node)) == nil {
				c.trash.Delete(n)
			}
		}
	}
}

// logger passes the library's lines on, as what they are: details.
type logger struct{ log *slog.Logger }

func (l logger) Printf(format string, v ...any) {
	l.log.Debug("zookeeper client", "message", fmt.Sprintf(format, v...))
}
