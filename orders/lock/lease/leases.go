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

// Leases are the locks that a Locker holds, and the loop that renews them. Each
// Locker, whatever its store, has one Leases.
type Leases struct {
	Config // that of New, or of one call; with the defaults
	*shared
}

// shared is one for all Leases that differ in the Config of a call.
type shared struct {
	store Store
	given Config // to New

	started atomic.Bool
	running chan struct{}   // closed when Run begins
	life    context.Context // ends when Run returns
	end     context.CancelFunc

	mu   sync.Mutex
	held map[*Lock]struct{}
	busy map[time.Duration]bool // the Timeouts of the locks that are being renewed
	done bool                   // Run has returned: nothing may be added to held
	look *time.Ticker
	pace time.Duration // of look: a twelfth of the shortest lease

	turns turns
}

// NewLeases returns Leases on a store. It panics on a Config that Validate
// refuses.
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
	// Four looks per third of a lease: none is renewed much later than it should
	// be, and one whose renewal failed is tried several times more.
	ls.pace = ls.Lease / 12
	ls.look = time.NewTicker(ls.pace)
	return ls
}

// Ended is why ctx has ended: its error, and its cause if that is a different error.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) || errors.Is(cause, ErrStopped) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// Ready is nil while an attempt may begin. After Run has returned it is ErrStopped, and
// when ctx has ended it is Ended(ctx).
func (ls *Leases) Ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	if ls.life.Err() != nil {
		return ErrStopped
	}
	return nil
}

// Run renews every lock at a third of its lease until ctx ends. Then it loses
// those that are left (ErrStopped). It is one loop however many locks there are. It
// returns nil, or an error if it has been called before.
func (ls *Leases) Run(ctx context.Context) error {
	if ls.started.Swap(true) {
		return errors.New("lock: Run called twice")
	}
	close(ls.running)
	var renewals sync.WaitGroup
	defer ls.stop()
	defer renewals.Wait()
	defer ls.look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ls.look.C:
			renewals.Go(func() { ls.Renew(ctx, now) })
		}
	}
}

// batch is how many locks one renewal has at most: enough that round trips hardly
// count, few enough that a slow server answers within one Timeout.
const batch = 100

// Renew renews every lock whose last renewal is a third of its lease ago. Locks with
// one Timeout go together: a short lease does not wait for the answer to a long one.
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
				_ = some[0].leases.renew(ctx, some) // each lock knows
			}
			ls.mu.Lock()
			defer ls.mu.Unlock()
			delete(ls.busy, t)
		})
	}
	all.Wait()
}

// renew renews locks, acts on the answers, and returns them. A lock without an answer
// stays due, and stays held until its deadline. It is logged once per outage.
func (ls *Leases) renew(run context.Context, locks []*Lock) []error {
	ctx, cancel := context.WithTimeout(run, ls.Timeout)
	defer cancel()
	sent := time.Now() // before sending, as when it was acquired
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
		ls.Logger.WarnContext(run, "lock: renewals failed", "locks", failing, "err", last)
	}
	return errs
}

// stop loses what is held, and refuses what comes.
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

// keep makes Run renew l. It reports false once Run has returned.
func (ls *Leases) keep(l *Lock) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.done {
		ls.held[l] = struct{}{}
		if pace := l.Lease() / 12; pace < ls.pace {
			ls.pace = pace
			ls.look.Reset(pace)
		}
	}
	return !ls.done
}

// lose ends the context of l with ErrLost and a reason.
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
