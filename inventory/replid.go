package inventory

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A restarted Redis or a promoted replica may lack the last writes: orders, keys and
// buyers. Such a Redis has a new master_replid. Each gate stores the master_replid that
// it was built on. If the id of its Redis differs, the gate is stale: it neither accepts
// nor refuses orders until its keeper has rebuilt it.
//
// reserve.lua reads the id in every call. Nodes also record the id of each master on each
// new connection and with each ProbeMasters. With these records keepers find stale gates without
// requests, and a node forgets what it remembers of a replaced Redis.
//
// A gate is also stale if it has accepted fewer orders than a node has seen. The node
// that notices this marks the gate for all nodes by setting built_on to '?'.

// A replID is the replication id of a master, and the id of the master that it followed
// before it was promoted.
type replID struct{ now, before string }

// OnConnect returns a function that records the replication id of the named master.
// go-redis must call it on each new connection to that master. If INFO is not available,
// as in an embedded Redis or in some managed ones, no change is noticed.
func (g *Gate) OnConnect(master string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, c *redis.Conn) error {
		g.identify(ctx, master, c)
		return nil
	}
}

// identify reads the replication id of a master and records it.
func (g *Gate) identify(ctx context.Context, name string, node redis.Cmdable) {
	var id replID
	info, _ := node.Info(ctx, "replication").Result() // if Redis is down, other commands report the error
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

// replID returns the replication id of the master of sku, or the zero replID if it is
// unknown.
func (g *Gate) replID(ctx context.Context, sku string) replID {
	name, _ := g.MasterOf(ctx, sku)
	id, _ := g.replIDs.Load(name)
	known, _ := id.(replID)
	return known
}
