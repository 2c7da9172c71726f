package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

// Where nodes publish what a keeper should look at, beside the queue.
const (
	endedChannel   = "orders:ended"   // a SKU: orders of it were closed or paid
	changedChannel = "orders:changed" // a SKU: its terms or its epoch are others now
	vacantChannel  = "orders:vacant"  // "": there are SKUs that nobody keeps
)

// toldChannel is where a keeper tells a node what became of its callers' orders.
func toldChannel(node string) string { return "orders:told:" + node }

// A bus carries hints between nodes, over one Pub/Sub connection each. Any of
// them may be lost: whoever is told here also looks by itself, only later.
type bus struct {
	rdb  redis.UniversalClient
	node string

	woken   func(sku string) // the SKU's queue is no longer empty
	ended   func(sku string)
	changed func(sku string)
	vacant  func()
	told    func([]told)
}

// Run listens until ctx ends, reconnecting as often as needed.
func (b *bus) Run(ctx context.Context) error {
	sub := b.rdb.Subscribe(ctx, inventory.WakeChannel, endedChannel, changedChannel, vacantChannel, toldChannel(b.node))
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
			b.receive(m)
		}
	}
}

func (b *bus) receive(m *redis.Message) {
	switch {
	case m.Channel == inventory.WakeChannel:
		b.woken(m.Payload)
	case m.Channel == endedChannel:
		b.ended(m.Payload)
	case m.Channel == changedChannel:
		b.changed(m.Payload)
	case m.Channel == vacantChannel:
		b.vacant()
	case strings.HasPrefix(m.Channel, toldChannel("")):
		var wire []wireTold
		if json.Unmarshal([]byte(m.Payload), &wire) == nil {
			outcomes := make([]told, len(wire))
			for i, t := range wire {
				outcomes[i] = told{ID: t.ID, Order: (*Order)(t.Order), Refused: t.Refused}
			}
			b.told(outcomes)
		}
	}
}

// wireTold is told with every column of the row, not as the API shows it.
type wireTold struct {
	ID      string
	Order   *wireOrder `json:",omitempty"`
	Refused string     `json:",omitempty"`
}

type wireOrder Order

// tell publishes outcomes to the nodes whose callers wait, one message a node.
func (b *bus) tell(ctx context.Context, byNode map[string][]told) error {
	var errs []error
	for node, outcomes := range byNode {
		wire := make([]wireTold, len(outcomes))
		for i, t := range outcomes {
			wire[i] = wireTold{ID: t.ID, Order: (*wireOrder)(t.Order), Refused: t.Refused}
		}
		payload, err := json.Marshal(wire)
		if err == nil {
			err = b.rdb.Publish(ctx, toldChannel(node), payload).Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tell node %s: %w", node, err))
		}
	}
	return errors.Join(errs...)
}

// say publishes a hint to all nodes, this one among them.
func (b *bus) say(ctx context.Context, channel, what string) {
	_ = b.rdb.Publish(ctx, channel, what).Err()
}
