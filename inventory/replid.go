package inventory

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Redis that was restarted, or a replica that was promoted, may lack the last
// writes: orders, keys and buyers that the gate knew before. Such a Redis has a new
// master_replid. A gate stores the master_replid that it was built on. If the id of
// its Redis is another one, the gate is stale: it neither accepts nor refuses orders
// until its keeper has rebuilt it. reserve.lua asks its Redis in every call. A node
// also records the id of each master, on each new connection and with each Probe. So
// its keepers find stale gates without requests, and the node forgets what it
// remembers of a Redis that was replaced.
//
// If a gate has accepted fewer orders than a node has seen, the gate is stale as well.
// The node that notices this marks the gate for all nodes (built_on is '?').

// A replID is the replication id of a master, and that of the master which it followed
// before it was promoted.
type replID struct{ now, before string }

// OnConnect returns the function that go-redis calls on each new connection to the
// master of that name, before the connection is used. If INFO is not available (an
// embedded Redis, or a managed one that forbids it), the function notices no change.
func (g *Gate) OnConnect(master string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, c *redis.Conn) error {
		g.identify(ctx, master, c)
		return nil
	}
}

// identify reads the replication id of a master and records it.
func (g *Gate) identify(ctx context.Context, name string, node redis.Cmdable) {
	var id replID
	info, _ := node.Info(ctx, "replication").Result() // if Redis is away, other commands report the error
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "master_replid":
			id.now = value
		case "master_replid2":
			id.before = value
		}
	}
	if id.now == "" {
		return
	}
	if was, _ := g.replIDs.Swap(name, id); was != id {
		g.changes.Add(1)
	}
}

// replID returns the replication id of the master of sku, or the zero replID if the id
// is not known.
func (g *Gate) replID(ctx context.Context, sku string) replID {
	name, _ := g.Master(ctx, sku)
	id, _ := g.replIDs.Load(name)
	known, _ := id.(replID)
	return known
}
