package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// release is what Release remembers between calls.
type release struct {
	called  bool
	running bool // the lease was running when Release was first called
	doubt   bool // an attempt's answer was lost: it may have done its work
	settled bool // err is final
	err     error
}

// Release ends Context and gives the lock up, to whoever waits for it. It works
// when ctx has ended, within a time of its own, and may be called any number of
// times: the outcome stays the same.
//
// It returns ErrExpired or ErrNotMine if the lock had been lost before, with
// nothing changed: another may have worked beside this holder. ErrUnknown means
// that no answer came; the call may be repeated, or the lock left to expire.
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
	if r.settled {
		l.leases.Config.Hooks.released(l.ctx, l.key, time.Since(l.since), r.err)
	}
	return r.err
}
