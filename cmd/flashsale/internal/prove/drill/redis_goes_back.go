package drill

import (
	"context"
	"net/http"
	"time"
)

// untrusted is the time by which the attack of redis-goes-back is longer than other attacks. The
// promoted replica has an old proof of the database that owns Redis. Therefore the nodes answer
// 503 instead of a final refusal for 10 s. The verdict needs a final refusal after that time.
const untrusted = 13 * time.Second

func redisGoesBack(ctx context.Context, a *controlSale) error {
	first, err := a.buy(ctx)
	if err != nil {
		return err
	}
	replica, err := a.replica(ctx)
	if err != nil {
		return err
	}
	err = a.until(ctx, "the replica has the order", func(ctx context.Context) bool {
		held, err := replica.HExists(ctx, a.key(":holds"), first.ID).Result()
		queued, err2 := replica.HGet(ctx, a.key(""), "queued").Int()
		return err == nil && held && err2 == nil && queued == 0
	})
	if err == nil {
		err = unfollow(ctx, replica)
	}
	if err == nil {
		err = a.exchange(ctx, first)
	}
	if err != nil {
		return err
	}
	a.did("an order cancelled, another bought, the gates rebuilt, none of it replicated")
	if err := a.injector.takeOver(replica); err != nil {
		return err
	}
	return a.buysAgain(ctx, first)
}

// exchange cancels the order of one buyer and lets another buyer buy the unit. It then
// makes the keepers rebuild both gates, also that of the sale under attack.
func (a *controlSale) exchange(ctx context.Context, first placed) error {
	if err := a.cancelAll(ctx, []placed{first}); err != nil {
		return err
	}
	if err := a.untilCount(ctx, "the cancelled order is released", 1, "restored_at IS NOT NULL"); err != nil {
		return err
	}
	if _, err := a.buy(ctx); err != nil {
		return err
	}
	attacked := &controlSale{attack: a.attack, sku: sku}
	epoch, other := a.gate(ctx, "epoch"), attacked.gate(ctx, "epoch")
	if err := a.redis.Del(ctx, a.key(""), attacked.key("")).Err(); err != nil {
		return err
	}
	return a.until(ctx, "both gates are rebuilt", func(ctx context.Context) bool {
		return a.gate(ctx, "epoch") > epoch && a.gate(ctx, "available") == a.terms.Total-1 && attacked.gate(ctx, "epoch") > other
	})
}

// buysAgain lets a buyer whose order is cancelled order again until it is accepted. A
// gate that still has the cancelled order refuses it.
func (a *controlSale) buysAgain(ctx context.Context, first placed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	refused, tries := false, 0
	err := a.until(ctx, "a buyer who has cancelled can buy again", func(ctx context.Context) bool {
		tries++
		status := a.order(ctx, first.buyer, tries).Status
		refused = refused || status == http.StatusConflict
		if status != http.StatusCreated {
			sleep(ctx, 200*time.Millisecond) // stays below the rate limit of a buyer
		}
		return status == http.StatusCreated
	})
	if err != nil && refused {
		a.broke("epoch: a gate from before its rebuild was not recognised: it refuses a buyer for an order that has been cancelled")
		return nil
	}
	return err
}
