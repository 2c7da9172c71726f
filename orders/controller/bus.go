package controller

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
)

// A bus carries hints and notices between the nodes through Redis. Every message may be lost.
// The receiver then finds the work later: a keeper by a resync, a caller by asking the database.
type bus struct {
	node    string
	prefix  string // first part of the names of channels
	rdb     redis.UniversalClient
	health  *redisHealth
	loop    *Loop
	deliver func(...Notice)
	// believes reports whether a message is from a keeper of this node's database.
	believes func(*message) bool
}

// A message contains a keeper's notices for one node.
type message struct {
	SKU     string
	Keeper  string // node of the keeper
	Fence   int64  // fence of the keeper
	Notices []Notice
}

// hintChannel is the channel for the SKUs whose keepers have work: orders were closed or paid,
// the sale is new, or its terms have changed. An empty SKU means that locks have become free.
const hintChannel = "orders:hint"

// noticeChannel returns the channel of the notices for callers on node.
func noticeChannel(node string) string { return "orders:notice:" + node }

// A Notice is the result of a reserved order: a row or a refusal. Notices to other nodes
// contain every column of the row, which the JSON of the API does not.
type Notice struct {
	ID      string        // id of the queued order
	Order   *orders.Order `json:",omitempty"` // the row, or the row of the first order with the same key
	Refused orders.Reason `json:",omitempty"` // if set, the caller receives this refusal instead of Order
}

// listen receives messages until ctx ends. The client reconnects by itself. listen calls wake
// with each SKU whose queue is no longer empty, and hinted with the SKU of each hint.
func (b *bus) listen(ctx context.Context, wake func(string, keeper.Work) bool, hinted func(sku string)) error {
	wakeups, hints := b.prefix+inventory.WakeChannel, b.prefix+hintChannel
	channels := []string{wakeups, hints, b.prefix + noticeChannel(b.node)}
	sub := b.rdb.Subscribe(ctx, channels...)
	defer func() { _ = sub.Close() }()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	messages := sub.Channel(redis.WithChannelSize(1024))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			// If Redis has refused the subscription, because the account lacks the right, the
			// client does not repeat it.
			_ = sub.Subscribe(ctx, channels...)
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			switch m.Channel {
			case wakeups:
				wake(m.Payload, keeper.DrainQueue)
			case hints:
				hinted(m.Payload)
			default: // the channel of this node's notices
				var from message
				if json.Unmarshal([]byte(m.Payload), &from) == nil && b.believes(&from) {
					b.deliver(from.Notices...)
				}
			}
		}
	}
}

// notify delivers the decisions of this node's keeper of sku to waiting callers: directly to
// callers on this node, and with one message per node to callers on other nodes.
func (b *bus) notify(ctx context.Context, sku string, fence int64, decisions []orders.Decision) {
	here, elsewhere := make([]Notice, 0, len(decisions)), map[string][]Notice{}
	for _, d := range decisions {
		n := Notice{ID: d.Queued.OrderID, Order: d.Order, Refused: d.Refused}
		switch node := d.Queued.Node; node {
		case b.node:
			here = append(here, n)
		case "":
		default:
			elsewhere[node] = append(elsewhere[node], n)
		}
	}
	b.deliver(here...)
	if len(elsewhere) == 0 {
		return
	}
	var errs []error
	for node, notices := range elsewhere {
		payload, err := json.Marshal(message{sku, b.node, fence, notices})
		if err == nil {
			err = b.rdb.Publish(ctx, b.prefix+noticeChannel(node), payload).Err()
		}
		errs = append(errs, err)
	}
	b.loop.Record(ctx, errors.Join(errs...))
}

// hint publishes sku on hintChannel, unless all Redis masters are down.
func (b *bus) hint(ctx context.Context, sku string) {
	if !b.health.allDown() {
		b.loop.Record(ctx, b.rdb.Publish(ctx, b.prefix+hintChannel, sku).Err())
	}
}
