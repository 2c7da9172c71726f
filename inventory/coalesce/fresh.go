package coalesce

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Fresh is a value that is made when somebody asks for it, at most once per Age,
// by one maker at a time. All who ask meanwhile wait for that maker and share
// what it makes. It is safe for concurrent use.
type Fresh[A any] struct {
	// Age is how old a value may be when it is handed out.
	Age time.Duration
	// Make makes the value. Its context has the values of the first caller's and
	// does not end, for others wait as well: Make bounds itself.
	Make func(context.Context) (A, error)

	mu  sync.Mutex
	cur *made[A]
}

type made[A any] struct {
	done  chan struct{} // closed when the rest is set
	at    time.Time
	value A
	err   error
}

var errPanicked = errors.New("coalesce: the maker panicked")

// Get returns a value that is at most Age old. Errors: Make's, which are shared
// with those who waited and not kept; the context's own.
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

// over tells whether the value is made, and too old or none.
func (m *made[A]) over(age time.Duration) bool {
	select {
	case <-m.done:
		return m.err != nil || time.Since(m.at) >= age
	default:
		return false
	}
}

// Forget has the next caller make a new value: what is known has changed.
func (f *Fresh[A]) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cur = nil
}
