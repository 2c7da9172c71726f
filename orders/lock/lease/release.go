package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// release is what Release remembers from one call to the next.
type release struct {
	called  bool
	running bool // the lease was running when Release was first called
	doubt   bool // an attempt's answer was lost: it may have done its work
	settled bool // err is final
	err     error
}

// Release ends Context and gives the lock up; who waits first gets it. It works even
// when ctx has ended, and takes twice Config.Timeout at most. It may be called any
// number of times: the outcome stays the same.
//
// It returns ErrExpired or ErrNotMine if the lock had been lost before. The store is
// unchanged then, and another holder may have worked beside this one. It returns
// ErrUnknown if no answer came: call it again, or let the lease end.
func (l *Lock) Release(ctx context.Context) error {
	if l == nil {
		return fmt.Errorf("release no lock: %w", ErrExpired)
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
	// The work must end before the server can give the lock to another.
	l.end(ErrReleased)

	doubt, err := l.leases.store.Release(ctx, l)
	r.doubt = r.doubt || doubt
	r.settled = !errors.Is(err, ErrUnknown)
	if r.settled && err != nil && r.doubt && r.running {
		// The lease was running, so the key can only be gone because an attempt
		// whose answer was lost has deleted it (and another came after).
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
