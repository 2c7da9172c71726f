package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// release is the state that Release keeps between calls.
type release struct {
	called  bool
	running bool // the lease was running at the first call of Release
	doubt   bool // the answer to an attempt was lost, so the attempt may have released the lock
	settled bool // err is final
	err     error
}

// Release ends Context and releases the lock to the first waiter. It works even if ctx
// has ended, and takes at most twice Config.Timeout. After a final outcome, further calls
// return the same error.
//
// Release returns ErrExpired or ErrNotMine if the lock was lost before. The store is
// unchanged in this case, and another holder may have worked at the same time. Release
// returns ErrUnknown if no answer arrived: call it again, or let the lease end.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return fmt.Errorf("release a lock that was not acquired: %w", ErrExpired)
	}
	l.releasing.Lock()
	defer l.releasing.Unlock()
	r := &l.release
	if r.settled {
		return r.err
	}
	if !r.called {
		r.called, r.running = true, l.running()
	}
	// The work must end before the server can grant the lock to another caller.
	l.end(ErrReleased)

	doubt, err := l.leases.store.Release(ctx, l)
	r.doubt = r.doubt || doubt
	r.settled = !errors.Is(err, ErrUnknown)
	if r.settled && err != nil && r.doubt && r.running {
		// The lease was running, so only the attempt whose answer was lost can have
		// released the lock. Another caller may hold it by now.
		err = nil
	}
	if r.err = err; err != nil {
		r.err = fmt.Errorf("release %q: %w", l.key, err)
	}
	if released := l.leases.Hooks.Released; r.settled && released != nil {
		released(l.ctx, l.key, time.Since(l.since), r.err)
	}
	return r.err
}
