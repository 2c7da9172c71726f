package redlock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders/lock/lease"
)

// The loss of a minority neither blocks a lock nor frees it; that of a majority
// blocks, and is not mistaken for somebody else's holding.
func TestMinority(t *testing.T) { servertest.Bubble(t, minority) }

func minority(t *testing.T) {
	wires, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	ctx, a, b := t.Context(), locks(), locks()
	wires[0].Cut()
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	check.Is(t, check.Err(b.TryAcquire(ctx, "lock:{sku}")), lease.ErrHeld)
	check.OK(t, a.masters.Renew(ctx, []*lease.Lock{l})[0])
	if left, err := b.Remaining(ctx, "lock:{sku}", "lock:{free}"); err != nil || left[0] == 0 || left[1] != 0 {
		t.Errorf("remaining %v, %v", left, err)
	}
	check.OK(t, l.Release(ctx))
	wires[1].Cut()
	if _, err := b.TryAcquire(ctx, "lock:{sku}"); !errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrHeld) {
		t.Errorf("with two of three away: %v, want ErrUnknown", err)
	}
}

// What a quorum of three says.
func TestDecide(t *testing.T) {
	lost := errors.New("no answer")
	for _, c := range []struct {
		votes []error
		want  error // nil, an outcome, or anything else for "not known"
	}{
		{[]error{nil, nil, lost}, nil},
		{[]error{nil, lease.ErrHeld, lease.ErrHeld}, lease.ErrHeld},
		{[]error{nil, lease.ErrHeld, lost}, lost},
		{[]error{lease.ErrExpired, lease.ErrNotMine, nil}, lease.ErrNotMine},
		{[]error{lost, lost, nil}, lost},
	} {
		if err := decide(c.votes, 2); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%v: %v, want %v", c.votes, err, c.want)
		}
	}
}

// three are masters behind wires, and clients of them.
func three(t *testing.T, cfg lease.Config) (wires []*wire.Wire, locks func() *Client) {
	for range 3 {
		wires = append(wires, servertest.OpenWire(t, servertest.InTime(t).Mini.Addr))
	}
	return wires, func() *Client {
		var masters []redis.UniversalClient
		for _, w := range wires {
			masters = append(masters, servertest.Connect(t, w.Addr(), func(o *redis.Options) { o.MaxRetries = -1 }))
		}
		return New(masters, cfg)
	}
}

// Nobody waits for a master that hangs, and what it does when it goes on changes
// nothing any more.
func TestMasterThatHangs(t *testing.T) { servertest.Bubble(t, masterThatHangs) }

func masterThatHangs(t *testing.T) {
	ctx := t.Context()
	wires, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	a := locks()
	defer func() { _ = a.masters.late.Wait(context.Background()) }()
	wires[0].Freeze()
	began := time.Now()
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	check.OK(t, l.Release(ctx))
	if took := time.Since(began); took > 0 {
		t.Errorf("%v for a lock and its release", took)
	}
	wires[0].Thaw()
	_ = a.masters.late.Wait(ctx) // what hung has been done
	left, err := a.masters.all[0].Remaining(ctx, "lock:{sku}")
	if err != nil || left[0] != 0 {
		t.Errorf("the master that hung: %v, %v", left, err)
	}
}

// A vote that was on its way when the lock was given up is none.
func TestVoteAfterTheRelease(t *testing.T) { servertest.Bubble(t, voteAfterTheRelease) }

func voteAfterTheRelease(t *testing.T) {
	ctx := t.Context()
	_, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	a := locks()
	if _, err := a.masters.erase(ctx, "lock:{sku}", "token"); !errors.Is(err, lease.ErrExpired) {
		t.Error(err)
	}
	_ = a.masters.late.Wait(ctx)
	for _, s := range a.masters.all {
		check.Is(t, check.Err(s.Ask(ctx, "lock:{sku}", "token", time.Hour)), lease.ErrHeld)
	}
	_ = a.masters.late.Wait(ctx)
}

// Masters that are emptied one after the other, never two at a time, do not lose a
// lock that is renewed in between.
func TestErosion(t *testing.T) { servertest.Bubble(t, erosion) }

func erosion(t *testing.T) {
	ctx := t.Context()
	_, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	a, b := locks(), locks()
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	_ = a.masters.late.Wait(ctx)
	for _, s := range a.masters.all {
		check.Must(t, s.RDB.FlushAll(ctx).Err())
		check.OK(t, a.masters.Renew(ctx, []*lease.Lock{l})[0])
	}
	check.Is(t, check.Err(b.TryAcquire(ctx, "lock:{sku}")), lease.ErrHeld)
	_ = b.masters.late.Wait(ctx)
}
