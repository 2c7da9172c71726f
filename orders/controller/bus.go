package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
)

// hintChannel is where nodes publish a SKU whose keeper should look at
// everything: orders of it were closed or paid, or it is a new sale, or has
// other terms. "": there are SKUs that nobody keeps.
const hintChannel = "orders:hint"

// noticeChannel is where a keeper tells a node what became of its callers' orders.
func noticeChannel(node string) string { return "orders:notice:" + node }

// A Notice is what became of a reserved order: a row, or a refusal. To another node
// it goes with every column of the row, not as the API shows it.
type Notice struct {
	ID      string        // as it was reserved
	Order   *orders.Order `json:",omitempty"` // may be another one: the first under the same key
	Refused orders.Reason `json:",omitempty"` // instead of Order
}

// listen hears the messages of other nodes until ctx ends, reconnecting as often
// as needed. Any of them may be lost: whoever gets one also looks by itself, only
// later.
func (c *Controller) listen(ctx context.Context) error {
	sub := c.rdb.Subscribe(ctx, inventory.WakeChannel, hintChannel, noticeChannel(c.node))
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
			c.receive(m)
		}
	}
}

func (c *Controller) receive(m *redis.Message) {
	switch m.Channel {
	case inventory.WakeChannel:
		c.wake(m.Payload, keeper.Drain) // its queue is no longer empty
	case hintChannel:
		c.follow(m.Payload)
	default: // the node's own
		var outcomes []Notice
		if json.Unmarshal([]byte(m.Payload), &outcomes) == nil {
			c.deliver(outcomes...)
		}
	}
}

// tell gives a keeper's verdicts to those who wait: here at once, elsewhere by
// message.
func (c *Controller) tell(ctx context.Context, verdicts []orders.Decision) {
	here, elsewhere := make([]Notice, 0, len(verdicts)), map[string][]Notice{}
	for _, v := range verdicts {
		t := Notice{ID: v.Queued.OrderID, Order: v.Order, Refused: v.Refused}
		switch node := v.Queued.Node; node {
		case c.node:
			here = append(here, t)
		case "":
		default:
			elsewhere[node] = append(elsewhere[node], t)
		}
	}
	c.deliver(here...)
	c.publish(ctx, elsewhere)
}

// publish sends outcomes to the nodes whose callers wait, one message a node.
// Callers whose message is lost look for themselves.
func (c *Controller) publish(ctx context.Context, byNode map[string][]Notice) {
	var errs []error
	for node, outcomes := range byNode {
		payload, err := json.Marshal(outcomes)
		if err == nil {
			err = c.rdb.Publish(ctx, noticeChannel(node), payload).Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tell node %s: %w", node, err))
		}
	}
	if len(byNode) > 0 {
		c.loops["bus"].Record(ctx, errors.Join(errs...))
	}
}

// hint has the keeper of sku look, on whichever node; see hintChannel.
func (c *Controller) hint(ctx context.Context, sku string) {
	if !c.redis.allDown() { // nobody waits for a Redis that is away
		c.loops["bus"].Record(ctx, c.rdb.Publish(ctx, hintChannel, sku).Err())
	}
}
