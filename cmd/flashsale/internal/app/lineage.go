package app

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A lineage notices that Redis is another process than it was: restarted, or a
// replica that was promoted. Each new connection asks before it is used, so
// nothing is answered by a Redis that nobody knows.
//
// On a cluster each master is another one when it is first seen, which costs a
// node some queries in its first minute.
type lineage struct {
	another func()

	mu   sync.Mutex
	runs map[string]bool // ids of processes
}

// connected is go-redis's OnConnect. Where INFO is not to be had (an embedded
// Redis, which lives as long as we do, or a managed one that forbids it),
// nothing is noticed.
func (l *lineage) connected(ctx context.Context, c *redis.Conn) error {
	info, err := c.InfoMap(ctx, "server").Result()
	if err != nil {
		return nil //nolint:nilerr // the connection's own commands will tell
	}
	if l.isAnother(info["Server"]["run_id"]) {
		l.another()
	}
	return nil
}

func (l *lineage) isAnother(run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run == "" || l.runs[run] {
		return false
	}
	first := len(l.runs) == 0
	if first {
		l.runs = map[string]bool{}
	}
	l.runs[run] = true
	return !first
}
