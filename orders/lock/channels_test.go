package lock

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/lease"
)

// A client whose account may neither publish nor subscribe hands its lock to a waiter, who polls.
// The client logs both missing rights, and subscribes when the account is allowed to.
func TestLockWithoutChannels(t *testing.T) {
	t.Parallel()
	s := real(t)
	ctx, admin, account := check.Context(t), s.connect(t), server{"app:pw@" + s.addr, s.patience}
	allow := func(rights ...any) {
		t.Helper()
		check.Must(t, admin.Do(ctx, append([]any{"ACL", "SETUSER", "app"}, rights...)...).Err())
	}
	logs := func(c *check.Tail, text string) {
		t.Helper()
		check.Eventually(t, "the log contains "+text, func() bool { return strings.Contains(c.String(), text) })
	}
	allow("on", ">pw", "~*", "+@all", "resetchannels")
	log := check.Output(t)
	c := account.client(t, lease.Config{Lease: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))})
	logs(log, "subscription failed")
	l, err := c.TryAcquire(ctx, "lock:{sku}")
	check.Must(t, err)
	next := make(chan error, 1)
	other := account.client(t, lease.Config{Lease: 5 * time.Second, Logger: check.Log(t)})
	go func() { next <- check.Err(other.Acquire(ctx, "lock:{sku}")) }()
	check.Eventually(t, "the waiter is in the queue", func() bool { return queueLen(t, s, "lock:{sku}") == 1 })
	check.OK(t, l.Release(ctx))
	check.OK(t, check.Receive(t, "the waiter receives the lock", next))
	if Listens(c) {
		t.Error("client without the right to subscribe: got a subscription, want none")
	}
	allow("allchannels", "-publish")
	logs(log, "cannot be published")
	if !Listens(c) { // set before the log
		t.Error("client that may subscribe again: got no subscription, want one")
	}
}
