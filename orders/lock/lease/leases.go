package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Leases are the locks that a Locker holds, and the loop that renews them: what
// all stores have in common. Who implements a Locker has one.
type Leases struct {
	Config // as New was given it, with the defaults

	store Store

	started atomic.Bool
	running chan struct{}   // closed when Run begins
	life    context.Context // ends when Run returns
	end     context.CancelFunc

	mu   sync.Mutex
	held map[*Lock]struct{}
	done bool // Run has returned: nothing may be added to held

	turns turns
}

// NewLeases returns Leases on a store. It panics on a Config that Validate
// refuses.
func NewLeases(store Store, cfg Config) *Leases {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	life, end := context.WithCancel(context.Background())
	return &Leases{
		store:   store,
		Config:  cfg.WithDefaults(),
		running: make(chan struct{}),
		life:    life,
		end:     end,
		held:    make(map[*Lock]struct{}),
		turns:   turns{lines: make(map[string][]chan struct{})},
	}
}

// Ended is why ctx has ended: its error, and its cause where that is another.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) || errors.Is(cause, ErrStopped) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// Ready is ErrStopped after Run has returned, and Ended when ctx has: no attempt
// should begin then.
func (ls *Leases) Ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	select {
	case <-ls.life.Done():
		return ErrStopped
	default:
		return nil
	}
}

// Stopped is closed when Run has returned.
func (ls *Leases) Stopped() <-chan struct{} { return ls.life.Done() }

// Hold begins a lease that the store has granted, for a request of Acquire or
// TryAcquire that began at the given time. sent is when the oldest request was
// sent that the store can have begun the lease with: not when it answered.
//
// It fails with ErrExpired if that is too long ago, and with ErrStopped; the
// store still has the lock then.
func (ls *Leases) Hold(ctx context.Context, key, token string, sent, began time.Time) (*Lock, error) {
	now := time.Now()
	l := &Lock{leases: ls, key: key, token: token, renewed: sent, since: now}
	l.until = sent.Add(ls.Lease - ls.Drift)
	if !now.Before(l.until) {
		return nil, fmt.Errorf("answered too late: %w", ErrExpired)
	}
	// Waiting and holding are different things: the values of the context that
	// waited (a trace, say) stay, its end does not.
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !ls.keep(l) {
		l.cancel(ErrStopped)
		return nil, ErrStopped
	}
	l.mu.Lock() // the timer may fire before it is assigned
	l.timer = time.AfterFunc(time.Until(l.deadline()), l.expire)
	l.mu.Unlock()
	ls.Hooks.acquired(l.ctx, key, now.Sub(began))
	return l, nil
}

// Run renews every lock at a third of its lease until ctx ends, and then loses
// those that are left. It is one loop however many locks there are. It returns
// nil, or an error if it has been called before.
func (ls *Leases) Run(ctx context.Context) error {
	if ls.started.Swap(true) {
		return errors.New("lock: Run called twice")
	}
	close(ls.running)
	defer ls.stop()
	// Four looks per third of a lease: none is renewed much later than it should
	// be, and one whose renewal failed is tried several times more.
	tick := time.NewTicker(ls.Lease / 12)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			ls.Renew(ctx, now)
		}
	}
}

// batch is how many locks are renewed at once: enough to make round trips not
// count, few enough for a slow server to answer within one Timeout.
const batch = 100

// Renew renews every lock whose last renewal is a third of its lease ago.
func (ls *Leases) Renew(ctx context.Context, now time.Time) {
	ls.mu.Lock()
	due := make([]*Lock, 0, len(ls.held))
	for l := range ls.held {
		if l.due(now) {
			due = append(due, l)
		}
	}
	ls.mu.Unlock()
	for len(due) > 0 {
		n := min(batch, len(due))
		ls.renew(ctx, due[:n])
		due = due[n:]
	}
}

// renew acts on the answers. Without one a lock stays due, and stays held until
// its deadline; one line in the log per lock and outage will do.
func (ls *Leases) renew(run context.Context, locks []*Lock) {
	ctx, cancel := context.WithTimeout(run, ls.Timeout)
	defer cancel()
	sent := time.Now() // before sending, as when it was acquired
	failing, last := 0, error(nil)
	for i, err := range ls.store.Renew(ctx, locks) {
		l := locks[i]
		switch {
		case err == nil:
			l.extend(sent)
			ls.Hooks.renewed(l.ctx, l.key, nil)
		case errors.Is(err, ErrExpired), errors.Is(err, ErrNotMine):
			ls.Lose(l, err)
		default:
			if l.fail(err) {
				failing, last = failing+1, err
			}
			ls.Hooks.renewed(l.ctx, l.key, err)
		}
	}
	if failing > 0 && run.Err() == nil {
		ls.Logger.WarnContext(run, "lock: renewals failed", "locks", failing, "err", last)
	}
}

// stop loses what is held, and refuses what comes.
func (ls *Leases) stop() {
	ls.mu.Lock()
	ls.done = true
	held := make([]*Lock, 0, len(ls.held))
	for l := range ls.held {
		held = append(held, l)
	}
	ls.mu.Unlock()
	ls.end()
	for _, l := range held {
		ls.Lose(l, ErrStopped)
	}
}

// keep makes Run renew l. It reports false once Run has returned.
func (ls *Leases) keep(l *Lock) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.done {
		ls.held[l] = struct{}{}
	}
	return !ls.done
}

// Lose ends the context of l for a reason that its holder did not choose: for the
// store, where that hears of a loss before the next renewal would.
func (ls *Leases) Lose(l *Lock, why error) {
	cause := fmt.Errorf("%w: %q: %w", ErrLost, l.key, why)
	if l.end(cause) {
		ls.Hooks.lost(l.ctx, l.key, cause)
	}
}

func (ls *Leases) forget(l *Lock) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.held, l)
}
