package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Loop counts the failures of one of a node's loops, and logs the first failure and the
// recovery. It does not log the failures between them, because a store that cannot be
// reached fails a loop many times a second.
type Loop struct {
	name     string
	log      *slog.Logger
	failing  atomic.Bool
	Failures atomic.Int64 // turns that failed
}

// Record records the result of one turn of the loop. It ignores the result of a turn
// whose context has ended, because the node is stopping.
func (l *Loop) Record(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if l.failing.Swap(false) {
			l.log.Info(l.name + " works again")
		}
	default:
		l.Failures.Add(1)
		if !l.failing.Swap(true) {
			l.log.Warn(l.name+" failed", "error", err)
		}
	}
}

// Every takes a turn each d until ctx ends, the first one at once.
func (l *Loop) Every(ctx context.Context, d time.Duration, turn func(context.Context) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		l.Record(ctx, turn(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func newLoops(log *slog.Logger) map[string]*Loop {
	loops := map[string]*Loop{}
	for _, name := range []string{"assign", "bus", "catalog", "heartbeat", "probe", "recheck", "resync", "sweeper"} {
		loops[name] = &Loop{name: name, log: log}
	}
	return loops
}

// signal sends to c, unless c is full: then its receiver was called before.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
