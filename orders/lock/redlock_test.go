package lock

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The loss of a minority neither blocks a lock nor frees it; that of a majority
// blocks, and is not mistaken for somebody else's holding.
func TestRedlockMinority(t *testing.T) {
	t.Parallel()
	ctx := background(t)
	var proxies []*wired
	newRedlock := func(to []*wired) *Redlock {
		var masters []redis.UniversalClient
		for _, p := range to {
			masters = append(masters, p.connect(t))
		}
		return NewRedlock(masters, Config{Lease: time.Hour, Timeout: soon})
	}
	for range 3 {
		proxies = append(proxies, newWire(t, embedded(t)))
	}
	a, b := newRedlock(proxies), newRedlock(proxies)
	proxies[0].Cut()
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	must(t, err)
	is(t, errOf(b.TryAcquire(ctx, "lock:{sku}")), ErrHeld)
	if errs := a.Renew(ctx, []*Lock{l}); errs[0] != nil {
		t.Error(errs[0])
	}
	if left, err := b.Remaining(ctx, "lock:{sku}", "lock:{free}"); err != nil || left[0] == 0 || left[1] != 0 {
		t.Errorf("remaining %v, %v", left, err)
	}
	ok(t, l.Release(ctx))
	proxies[1].Cut()
	if _, err := b.TryAcquire(ctx, "lock:{sku}"); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrHeld) {
		t.Errorf("with two of three away: %v, want ErrUnknown", err)
	}
}

// What a quorum of three says.
func TestVerdicts(t *testing.T) {
	lost := errors.New("no answer")
	for _, c := range []struct {
		votes []error
		want  error // nil, an outcome, or anything else for "not known"
	}{
		{[]error{nil, nil, lost}, nil},
		{[]error{nil, ErrHeld, ErrHeld}, ErrHeld},
		{[]error{nil, ErrHeld, lost}, lost},
		{[]error{ErrExpired, ErrNotMine, nil}, ErrNotMine},
		{[]error{lost, lost, nil}, lost},
	} {
		if err := verdicts(c.votes, 2); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%v: %v, want %v", c.votes, err, c.want)
		}
	}
}
