package lock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/internal/nap"
)

// waits are the callers of a Client that stand in a lock's line, and the one
// subscription by which they hear that the lock is theirs.
type waits struct {
	rdb       redis.UniversalClient
	channel   string
	heartbeat time.Duration

	waiters   sync.Map    // *waiter by token
	confirmed atomic.Bool // the subscription has been confirmed
}

type waiter struct {
	granted chan int      // holds one: the number of the question that was granted
	again   chan struct{} // holds one: a message may have been missed
}

// heartbeat is how long the subscription may be silent before the connection is
// tested, and again before it is given up.
const heartbeat = 5 * time.Second

func newWaits(rdb redis.UniversalClient, id string) *waits {
	return &waits{rdb: rdb, channel: "lock-client:" + id, heartbeat: heartbeat}
}

func (w *waits) enter(token string) *waiter {
	new := &waiter{granted: make(chan int, 1), again: make(chan struct{}, 1)}
	w.waiters.Store(token, new)
	return new
}

// listen hears which locks are handed to this client, until ctx ends. Each turn is one
// subscription. go-redis repairs it when its connection breaks. It does not notice a
// connection on which nothing comes any more: listenOnce does.
func (w *waits) listen(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		w.listenOnce(ctx, log)
	}
}

func (w *waits) listenOnce(ctx context.Context, log *slog.Logger) {
	pubsub := w.rdb.Subscribe(ctx, w.channel)
	defer func() { _ = pubsub.Close() }() // at most a second time
	// A read from the network doesn't look at ctx: closing ends it.
	defer context.AfterFunc(ctx, func() { _ = pubsub.Close() })()

	silent, broken := false, false
	for {
		msg, err := pubsub.ReceiveTimeout(ctx, w.heartbeat)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			silent, broken = false, false
			w.heard(msg)
		case isTimeout(err) && silent:
			log.WarnContext(ctx, "lock: messages silent, connecting anew")
			return
		case isTimeout(err):
			silent = true
			_ = pubsub.Ping(ctx) // if that fails, so does the next receive
		default:
			if !broken { // once per outage
				log.WarnContext(ctx, "lock: messages interrupted", "err", err)
			}
			broken = true
			_ = nap.For(ctx, 50*time.Millisecond+nap.Jitter(200*time.Millisecond))
		}
	}
}

// heard tells a waiter that the lock is its own. When the subscription is confirmed,
// the first time and after each reconnection, it tells all waiters to ask again: a
// message may have been missed just before.
func (w *waits) heard(msg any) {
	switch msg := msg.(type) {
	case *redis.Message:
		token, ask, _ := strings.Cut(msg.Payload, " ")
		n, err := strconv.Atoi(ask)
		if one, waits := w.waiters.Load(token); waits && err == nil {
			select {
			case one.(*waiter).granted <- n:
			default: // it has another grant that it hasn't looked at
			}
		}
	case *redis.Subscription:
		if msg.Kind != "subscribe" {
			return
		}
		w.confirmed.Store(true)
		for _, one := range w.waiters.Range {
			select {
			case one.(*waiter).again <- struct{}{}:
			default:
			}
		}
	}
}

func isTimeout(err error) bool {
	timeout, is := errors.AsType[net.Error](err)
	return is && timeout.Timeout()
}
