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

// The loss of one of three masters neither blocks nor frees a lock. After the loss of two, an
// acquisition returns ErrUnknown, not ErrHeld.
func TestLossOfMinorityKeepsLock(t *testing.T) { servertest.Bubble(t, lossOfMinority) }

func lossOfMinority(t *testing.T) {
	wires, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	ctx, a, b := t.Context(), locks(), locks()
	wires[0].Cut()
	l, err := a.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	check.Is(t, check.Err(b.TryAcquire(ctx, "lock:{sku}")), lease.ErrHeld)
	check.OK(t, a.masters.Renew(ctx, []*lease.Lock{l})[0])
	if left, err := b.Remaining(ctx, "lock:{sku}", "lock:{free}"); err != nil || left[0] == 0 || left[1] != 0 {
		t.Errorf("remaining times of a held and a free lock: got %v, error %v, want more than 0, then 0", left, err)
	}
	check.OK(t, l.Release(ctx))
	wires[1].Cut()
	if _, err := b.TryAcquire(ctx, "lock:{sku}"); !errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrHeld) {
		t.Errorf("acquire with one of three masters: got error %v, want ErrUnknown", err)
	}
}

func TestDecide(t *testing.T) {
	lost := errors.New("no answer")
	for _, c := range []struct {
		votes []error
		want  error // nil, an outcome, or lost if the decision is unknown
	}{
		{[]error{nil, nil, lost}, nil},
		{[]error{nil, lease.ErrHeld, lease.ErrHeld}, lease.ErrHeld},
		{[]error{nil, lease.ErrHeld, lost}, lost},
		{[]error{lease.ErrExpired, lease.ErrNotMine, nil}, lease.ErrNotMine},
		{[]error{lost, lost, nil}, lost},
	} {
		if err := decide(c.votes, 2); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("decide %v: got error %v, want %v", c.votes, err, c.want)
		}
	}
}

// three starts three masters behind wires. locks returns a new client of them.
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

// The client does not wait for a master that hangs. What that master does when it resumes has no
// effect.
func TestHangingMasterDoesNotDelay(t *testing.T) { servertest.Bubble(t, hangingMaster) }

func hangingMaster(t *testing.T) {
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
		t.Errorf("acquire and release with a hanging master: got %v, want 0", took)
	}
	wires[0].Thaw()
	_ = a.masters.late.Wait(ctx) // the calls that hung have ended
	left, err := a.masters.all[0].Remaining(ctx, "lock:{sku}")
	if err != nil || left[0] != 0 {
		t.Errorf("remaining time at the master that hung: got %v, error %v, want 0", left, err)
	}
}

// A master does not grant a vote to a token that was released before the request arrived.
func TestLateVoteIsRejected(t *testing.T) { servertest.Bubble(t, lateVote) }

func lateVote(t *testing.T) {
	ctx := t.Context()
	_, locks := three(t, lease.Config{Lease: time.Hour, Timeout: 20 * time.Second})
	a := locks()
	if _, err := a.masters.erase(ctx, "lock:{sku}", "token"); !errors.Is(err, lease.ErrExpired) {
		t.Errorf("release of a token without votes: got error %v, want ErrExpired", err)
	}
	_ = a.masters.late.Wait(ctx)
	for _, s := range a.masters.all {
		check.Is(t, check.Err(s.Ask(ctx, "lock:{sku}", "token", time.Hour)), lease.ErrHeld)
	}
	_ = a.masters.late.Wait(ctx)
}

// If the masters lose their data one after the other, with a renewal after each loss, the lock
// stays held.
func TestRenewalRestoresLostVotes(t *testing.T) { servertest.Bubble(t, renewalRestoresLostVotes) }

func renewalRestoresLostVotes(t *testing.T) {
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
