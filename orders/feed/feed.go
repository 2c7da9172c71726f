// Package feed reports what was sold: the current state of every order, and of every sale that an
// operator has changed. It reports states and not steps, as CouchDB's _changes does: an order that
// was paid and then taken back between two reads is reported once, as cancelled. A consumer that
// reads the feed to its end knows the current state of every order and sale. Whatever fails, no
// change is skipped, and no order is reported with an earlier state than before, unless a failover
// of the database loses commits (README.md).
//
// The feed needs the database only, so it also works in direct mode.
package feed

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/orders/store"
)

// Config of a Feed. Rush is optional.
type Config struct {
	Store *store.Store
	Log   *slog.Logger
	// Rush reports whether orders wait in a long queue. While it is true on a node, no node numbers
	// changes, for at most ten minutes, because numbering would slow the orders down.
	Rush func() bool
}

const (
	every    = 100 * time.Millisecond
	deferFor = 2 * time.Second  // duration of a deferral, which the node repeats after half of it
	maxRush  = 10 * time.Minute // longest time for which a rush defers the numbering
)

// MaxWaiting is the maximum number of readers that wait at the same time.
const MaxWaiting = 100

// A Feed numbers changes, and reads them for consumers. It is safe for concurrent use. Every node
// may run one: the nodes share the work.
type Feed struct {
	cfg       Config
	waiting   chan struct{} // one value per waiting reader
	lag       atomic.Int64  // result of Lag, in nanoseconds
	since     time.Time     // when Run first saw that changes wait for numbers; zero if none waits
	failed    bool          // the last step failed; only Run uses it
	last      int64         // the last number that Run has seen
	nextDefer time.Time     // when Run defers the numbering again

	mu    sync.Mutex
	moved chan struct{} // closed when there are new numbers, and then replaced
	ended bool          // Run has ended, so readers no longer wait
}

// New returns a Feed. Until Run is called, nothing is numbered.
func New(cfg Config) *Feed {
	if cfg.Rush == nil {
		cfg.Rush = func() bool { return false }
	}
	return &Feed{cfg: cfg, waiting: make(chan struct{}, MaxWaiting), moved: make(chan struct{})}
}

// Run numbers changes ten times a second, and wakes the readers that wait, until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	defer f.wake(true)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := f.step(ctx)
		if err != nil && !f.failed && ctx.Err() == nil { // once per outage
			f.cfg.Log.WarnContext(ctx, "feed: changes are not numbered; retried until the database answers", "error", err)
		}
		f.failed = err != nil
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (f *Feed) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Store.Timeout)
	defer cancel()
	state, err := f.cfg.Store.FeedState(ctx)
	if err == nil && state.Waiting == 0 {
		f.since = time.Time{}
	} else if f.since.IsZero() {
		f.since = time.Now()
	}
	if err != nil {
		f.lag.Store(int64(time.Since(f.since)))
		return err
	}
	// Waiting begins when all rows last had numbers, which may be long before the oldest change. If
	// Run first saw a waiting change later than that, the shorter time is used.
	lag := min(state.Waiting, time.Since(f.since))
	f.lag.Store(int64(lag))
	switch {
	case lag < maxRush && f.cfg.Rush():
		if time.Now().After(f.nextDefer) {
			f.nextDefer = time.Now().Add(deferFor / 2)
			err = f.cfg.Store.DeferNumbering(ctx, deferFor)
		}
	case state.Waiting > 0:
		var no int64
		no, err = f.cfg.Store.Number(ctx)
		state.Last = max(state.Last, no)
	}
	if state.Last != f.last {
		f.last = state.Last
		f.wake(false)
	}
	return err
}

// Lag returns how long changes have been waiting to be reported, or 0 if none waits. The oldest such
// change is at most this old. While the database does not answer, Lag is the time since the first
// failure. Lag is updated ten times a second.
func (f *Feed) Lag() time.Duration { return time.Duration(f.lag.Load()) }

// Waiting returns the number of readers that wait.
func (f *Feed) Waiting() int { return len(f.waiting) }

// Read returns changes as Store.Changes does. If there are none, it waits for up to wait, or until
// Run ends. At most MaxWaiting callers wait at the same time. Further callers receive the empty
// answer at once.
func (f *Feed) Read(ctx context.Context, after string, limit int, wait time.Duration) ([]store.Change, string, error) {
	if wait > 0 {
		select {
		case f.waiting <- struct{}{}:
			defer func() { <-f.waiting }()
		default:
			wait = 0
		}
	}
	timeout := time.After(wait)
	for {
		moved, ended := f.updates()
		changes, next, err := f.cfg.Store.Changes(ctx, after, limit)
		if err != nil || len(changes) > 0 || wait <= 0 || ended {
			return changes, next, err
		}
		select {
		case <-moved:
		case <-timeout:
			wait = 0
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// updates returns a channel that is closed when there are new numbers.
func (f *Feed) updates() (moved <-chan struct{}, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moved, f.ended
}

func (f *Feed) wake(end bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.moved)
	f.moved = make(chan struct{})
	f.ended = end
}
