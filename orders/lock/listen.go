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
	"flashsale/orders/lock/internal/onredis"
)

// waits contains the callers of a Client that are in a wait queue. One subscription
// receives the messages that grant them their locks.
type waits struct {
	rdb       redis.UniversalClient
	channel   string
	heartbeat time.Duration

	waiters   sync.Map    // *waiter by token
	confirmed atomic.Bool // set once the server has confirmed the subscription
}

type waiter struct {
	granted chan int      // index of the request that was granted; capacity 1
	missed  chan struct{} // signals that a message may have been missed; capacity 1
}

// heartbeat is the duration of silence after which listenOnce sends a PING. If the connection
// stays silent for heartbeat again, listenOnce closes it.
const heartbeat = 5 * time.Second

func newWaits(rdb redis.UniversalClient, channel string) *waits {
	return &waits{rdb: rdb, channel: channel, heartbeat: heartbeat}
}

func (w *waits) enter(token string) *waiter {
	new := &waiter{granted: make(chan int, 1), missed: make(chan struct{}, 1)}
	w.waiters.Store(token, new)
	return new
}

// listen receives the messages that hand locks to this client, until ctx ends. go-redis
// reconnects a subscription whose connection breaks, but does not detect a connection
// that has gone silent. listenOnce detects it and returns, and listen subscribes again.
func (w *waits) listen(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		w.listenOnce(ctx, log)
	}
}

func (w *waits) listenOnce(ctx context.Context, log *slog.Logger) {
	pubsub := w.rdb.Subscribe(ctx, w.channel)
	defer func() { _ = pubsub.Close() }()
	// A blocked network read ignores ctx. Closing the connection ends the read.
	defer context.AfterFunc(ctx, func() { _ = pubsub.Close() })()

	silent, broken := false, false
	for {
		msg, err := pubsub.ReceiveTimeout(ctx, w.heartbeat)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			silent, broken = false, false
			w.receive(msg)
			if _, subscribed := msg.(*redis.Subscription); subscribed {
				// The scripts ignore a refused PUBLISH.
				if err := w.rdb.Publish(ctx, w.channel, "").Err(); onredis.IsReply(err) {
					log.WarnContext(ctx, "lock: grants cannot be published: waiters poll for the locks that this client releases", "err", err)
				}
			}
		case isTimeout(err) && silent:
			log.WarnContext(ctx, "lock: subscription does not answer: it is reopened, and waiters poll until then")
			return
		case isTimeout(err):
			silent = true
			_ = pubsub.Ping(ctx) // if Ping fails, the next receive fails too
		default:
			if !broken { // once per outage
				log.WarnContext(ctx, "lock: subscription failed and will be retried: waiters poll until then", "err", err)
			}
			broken = true
			_ = nap.For(ctx, 50*time.Millisecond+nap.Jitter(200*time.Millisecond))
			if onredis.IsReply(err) { // refused, and the client does not repeat it; the account may be allowed to by now
				_ = pubsub.Subscribe(ctx, w.channel)
			}
		}
	}
}

// receive passes a grant on to its waiter. When a subscription is confirmed, which also
// happens after each reconnection, receive makes all waiters ask again, because a message
// may have been lost before the confirmation.
func (w *waits) receive(msg any) {
	switch msg := msg.(type) {
	case *redis.Message:
		token, ask, _ := strings.Cut(msg.Payload, " ")
		n, err := strconv.Atoi(ask)
		if one, waits := w.waiters.Load(token); waits && err == nil {
			select {
			case one.(*waiter).granted <- n:
			default: // the waiter has not read its previous grant yet
			}
		}
	case *redis.Subscription:
		if msg.Kind != "subscribe" {
			return
		}
		w.confirmed.Store(true)
		for _, one := range w.waiters.Range {
			select {
			case one.(*waiter).missed <- struct{}{}:
			default:
			}
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
