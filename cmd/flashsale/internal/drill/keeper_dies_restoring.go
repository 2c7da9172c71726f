package drill

import (
	"context"
	"fmt"
	"strings"
)

var keeperDiesRestoring = drill{
	name:    "keeper-dies-restoring",
	happens: "the keeper is killed after the gate took back the units of cancelled orders, before MySQL knows of it",
	sees:    "a pause of one lease at most",
	never:   "units given back twice, when the next keeper gives them back again",
	wires:   true,
	harm: func(ctx context.Context, s *stage) error {
		if err := s.moment(ctx); err != nil {
			return err
		}
		a, err := s.openAside(ctx, 20, asideWindow)
		if err != nil {
			return err
		}
		defer a.close()
		orders, err := a.buyMany(ctx, 8)
		if err != nil {
			return err
		}
		epoch, err := a.epoch(ctx)
		if err != nil {
			return err
		}
		cancelled := make(chan error, 1)
		go func() { cancelled <- a.cancelAll(ctx, orders) }()
		keeper, mark, err := s.catchAny(ctx, "a keeper marks orders as restored", func(n *node) (*wire, *catch) {
			return n.mysqlWire, n.mysqlWire.hold(func(sent string) bool {
				return strings.Contains(sent, "SET `restored_at`=") && mentions(sent, orders) > 0
			})
		})
		if err != nil {
			return err
		}
		defer mark.drop()
		back, err := a.givenBack(ctx, orders)
		if err != nil {
			return err
		}
		keeper.Kill()
		mark.drop()
		s.did("%s killed, the keeper, %d units back at the gate and not marked", keeper.name, back)
		if err := keeper.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.did("started again")
		if err := <-cancelled; err != nil {
			return err
		}
		err = a.until(ctx, "all are marked", func(ctx context.Context) bool {
			n, err := a.count(ctx, "status = 'cancelled' AND restored_at IS NOT NULL")
			return err == nil && int(n) == len(orders)
		})
		if err != nil {
			return err
		}
		return a.balanced(ctx, epoch)
	},
}

// cancelAll cancels orders until the answer says so: a node may die of it.
func (a *aside) cancelAll(ctx context.Context, orders []placed) error {
	for _, o := range orders {
		err := a.until(ctx, "an order is cancelled", func(ctx context.Context) bool {
			status, err := a.cancel(ctx, o)
			return err == nil && status == 200
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// givenBack counts the orders whose units are back at the gate while the
// database does not know; none of them would mean no harm.
func (a *aside) givenBack(ctx context.Context, orders []placed) (back int, err error) {
	for _, o := range orders {
		held, err := a.redis.HExists(ctx, a.key(":holds"), o.ID).Result()
		if err != nil {
			return 0, err
		}
		if !held {
			back++
		}
	}
	marked, err := a.count(ctx, "restored_at IS NOT NULL")
	if err == nil && (back == 0 || marked > 0) {
		err = fmt.Errorf("%d orders given back and %d marked, want some and none", back, marked)
	}
	return back, err
}

// mentions counts the orders whose ids are in a statement.
func mentions(sent string, orders []placed) (n int) {
	for _, o := range orders {
		if strings.Contains(sent, o.ID) {
			n++
		}
	}
	return n
}
