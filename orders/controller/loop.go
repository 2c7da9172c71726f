package controller

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Loop counts the failed turns of one of a node's loops. It logs only the first failure and
// the recovery, because a store that is down fails a loop many times a second.
type Loop struct {
	name     string
	stops    string // what does not happen while the loop fails
	log      *slog.Logger
	failing  atomic.Bool
	Failures atomic.Int64 // number of failed turns
}

// Record records the result of a turn. If ctx has ended, Record does nothing, because the node
// is stopping.
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
			l.log.Warn(l.name+" failed", "error", err, "consequence", l.stops)
		}
	}
}

// Every calls turn at once and then at intervals of d, until ctx ends. It returns nil.
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
	for name, stops := range map[string]string{
		"assign":    "this node takes no SKU without a keeper",
		"bus":       "other nodes and callers are not notified, and find their work or order later",
		"catalog":   "this node does not see changes of the sales",
		"heartbeat": "other nodes take over the SKUs of this node after a lease",
		"owner":     "a node that has just started takes no SKU, and this node does not notice another database's nodes on this Redis",
		"probe":     "this node does not notice whether Redis accepts writes",
		"recheck":   "callers whose notice was lost wait until their timeout",
		"resync":    "keepers on this node do not find work whose hint was lost",
		"sweeper":   "overdue orders do not expire, so their units are not sold again",
	} {
		loops[name] = &Loop{name: name, stops: stops, log: log}
	}
	return loops
}

// signal sends to c, unless c is full. In a full channel, a signal is pending already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
