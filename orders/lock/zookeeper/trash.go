package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// discard makes sweep delete the node.
func (c *Client) discard(n node) { c.trash.Store(n, true) }

// sweep deletes discarded nodes until ctx ends. A failed deletion is retried.
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

// logger writes the library's messages to the log, at level Debug.
type logger struct{ log *slog.Logger }

func (l logger) Printf(format string, v ...any) {
	l.log.Debug("zookeeper client", "message", fmt.Sprintf(format, v...))
}
