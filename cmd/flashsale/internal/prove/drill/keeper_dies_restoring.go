package drill

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/wire"
)

func keeperDiesRestoring(ctx context.Context, a *controlSale) error {
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
	keeper, mark, err := a.breakpoint(ctx, "a keeper marks orders released", func(n *lab.Node) *wire.Catch {
		marks := wire.Contains("SET `restored_at`=")
		return n.MySQL.Hold(func(sent []byte) bool {
			return marks(sent) && slices.ContainsFunc(orders, func(o placed) bool { return bytes.Contains(sent, []byte(o.ID)) })
		})
	})
	if err != nil {
		return err
	}
	defer mark.Drop()
	back, err := a.released(ctx, orders)
	if err != nil {
		return err
	}
	keeper.Kill()
	mark.Drop()
	a.did("keeper %s killed, %d orders released at the gate and not marked released", keeper.Name, back)
	if err := keeper.Restart(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	a.did("started again")
	if err := <-cancelled; err != nil {
		return err
	}
	if err := a.untilCount(ctx, "all are marked released", len(orders), "status = 'cancelled' AND restored_at IS NOT NULL"); err != nil {
		return err
	}
	return a.balanced(ctx, epoch)
}

// cancelAll repeats each cancellation until it is confirmed, because the drill kills a node
// at the same time.
func (a *controlSale) cancelAll(ctx context.Context, orders []placed) error {
	for _, o := range orders {
		n := 0
		err := a.until(ctx, "an order is cancelled", func(ctx context.Context) bool {
			n++
			return a.end(ctx, o, cancel, n) == http.StatusOK
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// released returns how many orders the gate has released while none is marked released in MySQL.
// If the number is 0, the fault did not happen, and released returns an error.
func (a *controlSale) released(ctx context.Context, orders []placed) (back int, err error) {
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
		err = fmt.Errorf("got %d orders released and %d marked released, want some released and none marked released", back, marked)
	}
	return back, err
}
