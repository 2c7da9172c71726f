package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Leases contains the locks that a Locker holds, and the loop that renews them.
type Leases struct {
	Config // the Config of the client or of one call, with defaults
	*shared
}

// shared contains the state that the Leases of a client and the Leases of its calls share.
type shared struct {
	store Store
	given Config // the Config that was passed to NewLeases, without defaults

	started atomic.Bool
	running chan struct{}   // closed when Run begins
	life    context.Context // ends when Run returns
	end     context.CancelFunc

	mu   sync.Mutex
	held map[*Lock]struct{}
	busy map[time.Duration]bool // the Timeouts whose locks are being renewed
	done bool                   // Run has returned; held accepts no more locks
	tick *time.Ticker
	pace time.Duration // the period of tick: a twelfth of the shortest lease

	turns turns
}

// NewLeases returns the Leases of a client that keeps its locks in store. It panics if
// cfg is invalid.
func NewLeases(store Store, cfg Config) *Leases {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	life, end := context.WithCancel(context.Background())
	ls := &Leases{Config: cfg.WithDefaults(), shared: &shared{
		store:   store,
		given:   cfg,
		running: make(chan struct{}),
		life:    life,
		end:     end,
		held:    make(map[*Lock]struct{}),
		busy:    make(map[time.Duration]bool),
		turns:   turns{keys: make(map[string]*turn)},
	}}
	// Four ticks per third of a lease: a renewal is at most one tick late, and a failed
	// renewal is retried several times before the lease ends.
	ls.pace = ls.Lease / 12
	ls.tick = time.NewTicker(ls.pace)
	return ls
}

// Ended returns the error of a context that has ended, joined with its cause if the cause
// is a different error.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) || errors.Is(cause, ErrStopped) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// Ready returns an error if no attempt may begin: ErrStopped after Run has returned, and
// Ended(ctx) after ctx has ended.
func (ls *Leases) Ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	if ls.life.Err() != nil {
		return ErrStopped
	}
	return nil
}

// Run implements Locker. One loop renews all locks.
func (ls *Leases) Run(ctx context.Context) error {
	if ls.started.Swap(true) {
		return errors.New("lock: Run called twice")
	}
	close(ls.running)
	var renewals sync.WaitGroup
	defer ls.stop()
	defer renewals.Wait()
	defer ls.tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ls.tick.C:
			renewals.Go(func() { ls.Renew(ctx, now) })
		}
	}
}

// batch is the maximum number of locks in one round trip. A larger batch could take a slow
// server longer than one Timeout.
const batch = 100

// Renew renews every lock whose last renewal is a third of its lease ago. It sends locks
// with different Timeouts separately, so that a short lease does not wait for the answer
// to a long one.
func (ls *Leases) Renew(ctx context.Context, now time.Time) {
	due := make(map[time.Duration][]*Lock)
	ls.mu.Lock()
	for l := range ls.held {
		if t := l.leases.Timeout; !ls.busy[t] && l.due(now) {
			due[t] = append(due[t], l)
		}
	}
	for t := range due {
		ls.busy[t] = true
	}
	ls.mu.Unlock()
	var all sync.WaitGroup
	for t, locks := range due {
		all.Go(func() {
			for some := range slices.Chunk(locks, batch) {
				_ = some[0].leases.renew(ctx, some) // renew has passed each error on to its lock
			}
			ls.mu.Lock()
			defer ls.mu.Unlock()
			delete(ls.busy, t)
		})
	}
	all.Wait()
}

// renew renews the locks, applies each answer to its lock, and returns the errors. A lock
// without an answer stays due for renewal, and stays held until its deadline. A failure is logged
// once per outage.
func (ls *Leases) renew(run context.Context, locks []*Lock) []error {
	ctx, cancel := context.WithTimeout(run, ls.Timeout)
	defer cancel()
	sent := time.Now() // the server starts the lease later than this
	failing, last := 0, error(nil)
	errs := ls.store.Renew(ctx, locks)
	for i, err := range errs {
		l := locks[i]
		switch {
		case errors.Is(err, ErrExpired), errors.Is(err, ErrNotMine):
			ls.lose(l, err)
			continue
		case err == nil:
			l.extend(sent)
		case l.fail(err):
			failing, last = failing+1, err
		}
		if renewed := l.leases.Hooks.Renewed; renewed != nil {
			renewed(l.ctx, l.key, err)
		}
	}
	if failing > 0 && run.Err() == nil {
		ls.Logger.WarnContext(run, "lock: renewals failed, retrying until the leases end", "locks", failing, "err", last)
	}
	return errs
}

// stop ends every held lock with ErrStopped, and makes keep reject new locks.
func (ls *Leases) stop() {
	ls.mu.Lock()
	ls.done = true
	held := slices.Collect(maps.Keys(ls.held))
	ls.mu.Unlock()
	ls.end()
	for _, l := range held {
		ls.lose(l, ErrStopped)
	}
}

// keep registers l for renewal by Run. It returns false after Run has returned.
func (ls *Leases) keep(l *Lock) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.done {
		ls.held[l] = struct{}{}
		if pace := l.Lease() / 12; pace < ls.pace {
			ls.pace = pace
			ls.tick.Reset(pace)
		}
	}
	return !ls.done
}

// lose ends the context of l with ErrLost and the reason why.
func (ls *Leases) lose(l *Lock, why error) {
	cause := fmt.Errorf("%w: %q: %w", ErrLost, l.key, why)
	if lost := l.leases.Hooks.Lost; l.end(cause) && lost != nil {
		lost(l.ctx, l.key, cause)
	}
}

func (ls *Leases) forget(l *Lock) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.held, l)
}
