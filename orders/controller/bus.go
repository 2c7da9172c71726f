package controller

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
)

// A bus carries hints and notices between the nodes through Redis. Every message may be
// lost: the node that should receive it also finds the work by itself, only later.
type bus struct {
	node    string
	rdb     redis.UniversalClient
	health  *redisHealth
	loop    *Loop
	deliver func(...Notice)
}

// hintChannel is the channel on which nodes publish a SKU whose keeper should look at
// everything: its orders were closed or paid, the sale is new, or its terms have changed.
// An empty SKU means that locks have become free.
const hintChannel = "orders:hint"

// noticeChannel is the channel of the notices for the callers of node.
func noticeChannel(node string) string { return "orders:notice:" + node }

// A Notice is what became of a reserved order: a row, or a refusal. To another node
// it goes with every column of the row, not as the API shows it.
type Notice struct {
	ID      string        // as it was reserved
	Order   *orders.Order `json:",omitempty"` // may be another one: the first under the same key
	Refused orders.Reason `json:",omitempty"` // instead of Order
}

// listen receives the messages of other nodes until ctx ends, and reconnects as often as
// needed. It calls wake with a SKU whose queue is no longer empty, and hinted with the SKU
// of a hint.
func (b *bus) listen(ctx context.Context, wake func(string, keeper.Work) bool, hinted func(sku string)) error {
	sub := b.rdb.Subscribe(ctx, inventory.WakeChannel, hintChannel, noticeChannel(b.node))
	defer func() { _ = sub.Close() }()
	messages := sub.Channel(redis.WithChannelSize(1024))
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			switch m.Channel {
			case inventory.WakeChannel:
				wake(m.Payload, keeper.Drain)
			case hintChannel:
				hinted(m.Payload)
			default: // notices for this node
				var notices []Notice
				if json.Unmarshal([]byte(m.Payload), &notices) == nil {
					b.deliver(notices...)
				}
			}
		}
	}
}

// notify delivers a keeper's decisions to the callers that wait: on this node at once, on
// other nodes with one message per node.
func (b *bus) notify(ctx context.Context, decisions []orders.Decision) {
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
		payload, err := json.Marshal(notices)
		if err == nil {
			err = b.rdb.Publish(ctx, noticeChannel(node), payload).Err()
		}
		errs = append(errs, err)
	}
	b.loop.Record(ctx, errors.Join(errs...))
}

// hint publishes sku on hintChannel, unless Redis is down.
func (b *bus) hint(ctx context.Context, sku string) {
	if !b.health.allDown() {
		b.loop.Record(ctx, b.rdb.Publish(ctx, hintChannel, sku).Err())
	}
}
