package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// throw has a node removed as soon as possible.
func (c *Client) throw(n node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trash[n] = struct{}{}
}

func (c *Client) inTrash(nodePath string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.trash {
		if n.random == name(nodePath) {
			return true
		}
	}
	return false
}

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
		c.mu.Lock()
		trash := slices.Collect(maps.Keys(c.trash))
		c.mu.Unlock()
		for _, n := range trash {
			if c.remove(ctx, n) == nil {
				c.mu.Lock()
				delete(c.trash, n)
				c.mu.Unlock()
			}
		}
	}
}

// logger passes the library's lines on, as what they are: details.
type logger struct{ log *slog.Logger }

func (l logger) Printf(format string, v ...any) {
	l.log.Debug("zookeeper client", "message", fmt.Sprintf(format, v...))
}
