package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A loop is what is to be known of one of a node's loops: its first failure and
// its recovery are logged, and failures are counted. In between it says nothing,
// for a store that is away fails it many times a second.
type loop struct {
	name     string
	log      *slog.Logger
	failing  atomic.Bool
	failures atomic.Int64
}

// Ended takes note of how one turn of the loop ended. A turn that ended with
// the node is neither.
func (l *loop) Ended(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if l.failing.Swap(false) {
			l.log.Info(l.name + " works again")
		}
	default:
		l.failures.Add(1)
		if !l.failing.Swap(true) {
			l.log.Warn(l.name+" failed", "error", err)
		}
	}
}

// Every takes a turn each d until ctx ends, the first one at once.
func (l *loop) Every(ctx context.Context, d time.Duration, turn func(context.Context) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		l.Ended(ctx, turn(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func newLoops(log *slog.Logger) map[string]*loop {
	loops := map[string]*loop{}
	for _, name := range []string{"assign", "bus", "catalog", "heartbeat", "probe", "recheck", "resync", "sweeper"} {
		loops[name] = &loop{name: name, log: log}
	}
	return loops
}
