package coalesce

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Fresh holds a value that is made on demand, at most once per Age and by one maker at
// a time. Callers that arrive while the value is being made share the result. A Fresh is
// safe for concurrent use.
type Fresh[A any] struct {
	// Age is the largest age of a returned value.
	Age time.Duration
	// Make makes the value. Its context has the values of the first caller's context but
	// does not end with it, because other callers wait as well. Make must bound its own
	// time.
	Make func(context.Context) (A, error)

	mu  sync.Mutex
	cur *made[A]
}

type made[A any] struct {
	done  chan struct{} // closed when the fields below are set
	at    time.Time
	value A
	err   error
}

var errPanicked = errors.New("coalesce: Make panicked, so there is no value")

// Get returns a value that is at most Age old, the error of Make, or the context's error.
// All callers that waited share an error of Make. The next caller tries again.
func (f *Fresh[A]) Get(ctx context.Context) (A, error) {
	f.mu.Lock()
	m := f.cur
	mine := m == nil || m.over(f.Age)
	if mine {
		m = &made[A]{done: make(chan struct{}), err: errPanicked}
		f.cur = m
	}
	f.mu.Unlock()
	if mine {
		defer close(m.done)
		m.value, m.err = f.Make(context.WithoutCancel(ctx))
		m.at = time.Now()
		return m.value, m.err
	}
	select {
	case <-m.done:
		return m.value, m.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// over reports whether Make has returned, and the value is too old or Make has failed.
func (m *made[A]) over(age time.Duration) bool {
	select {
	case <-m.done:
		return m.err != nil || time.Since(m.at) >= age
	default:
		return false
	}
}

// Forget drops the value, for example because its source has changed. The next caller
// makes a new value.
func (f *Fresh[A]) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cur = nil
}
