package drill

import (
	"context"
	"errors"
	"net/http"
	"time"
)

var redisGoesBack = drill{
	name: "redis-goes-back",
	happens: "a replica is promoted that stopped following before the gate was rebuilt: " +
		"its units add up, but they are those of other buyers",
	sees:      "503 until the failover is done, then the truth",
	never:     "a gate from before its rebuild selling on",
	redisLink: true,
	replica:   true,
	nodeArgs:  []string{"--reconcile-holds-every", "10m"}, // which finds it too, in half a minute
	harm: func(ctx context.Context, s *stage) error {
		a, err := s.openAside(ctx, 20, asideWindow)
		if err != nil {
			return err
		}
		defer a.close()
		first, err := a.buy(ctx)
		if err != nil {
			return err
		}
		replica := client(s.replica.Addr())
		defer func() { _ = replica.Close() }()
		err = a.until(ctx, "the replica has heard of an order", func(ctx context.Context) bool {
			held, err := replica.HExists(ctx, a.key(":holds"), first.ID).Result()
			queued, err2 := replica.HGet(ctx, a.key(""), "queued").Int()
			return err == nil && held && err2 == nil && queued == 0
		})
		if err != nil {
			return err
		}
		if err := s.moment(ctx); err != nil {
			return err
		}
		s.replicaLink.Cut()
		if err := a.exchange(ctx, first); err != nil {
			return errors.Join(err, s.promote(ctx))
		}
		s.did("an order cancelled, another bought, the gates rebuilt, and the replica heard nothing")
		if err := s.promote(ctx); err != nil {
			return err
		}
		return a.buysAgain(ctx, first)
	},
}

// exchange has another buyer buy what one gives back, and the gates rebuilt: that
// of the sale under attack, too.
func (a *aside) exchange(ctx context.Context, first placed) error {
	if err := a.cancelAll(ctx, []placed{first}); err != nil {
		return err
	}
	err := a.until(ctx, "the cancelled order is restored", func(ctx context.Context) bool {
		n, err := a.count(ctx, "restored_at IS NOT NULL")
		return err == nil && n == 1
	})
	if err != nil {
		return err
	}
	if _, err := a.buy(ctx); err != nil {
		return err
	}
	attacked := &aside{stage: a.stage, sku: sku, redis: a.redis}
	epoch, other := a.gate(ctx, "epoch"), attacked.gate(ctx, "epoch")
	if err := a.redis.Del(ctx, a.key(""), attacked.key("")).Err(); err != nil {
		return err
	}
	return a.until(ctx, "both gates are rebuilt", func(ctx context.Context) bool {
		return a.gate(ctx, "epoch") > epoch && a.gate(ctx, "available") == a.terms.Total-1 && attacked.gate(ctx, "epoch") > other
	})
}

// promote kills the primary and leads the nodes to the replica.
func (s *stage) promote(ctx context.Context) error {
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	replica := client(s.replica.Addr())
	defer func() { _ = replica.Close() }()
	s.stores.Redis.Kill()
	defer s.did("primary killed, replica promoted")
	return errors.Join(replica.Do(healing, "REPLICAOF", "NO", "ONE").Err(), s.redisLink.Lead(s.replica.Addr()))
}

// buysAgain has a buyer whose order is cancelled try again until a gate that
// remembers it as open does so no longer.
func (a *aside) buysAgain(ctx context.Context, first placed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	refused, tries := false, 0
	err := a.until(ctx, "a buyer who has cancelled can buy again", func(ctx context.Context) bool {
		tries++
		status, _, err := a.order(ctx, first.buyer, tries)
		refused = refused || err == nil && status == http.StatusConflict
		if status != http.StatusCreated {
			_ = a.sleep(ctx, 200*time.Millisecond) // within the limits of a buyer
		}
		return err == nil && status == http.StatusCreated
	})
	if err != nil && refused {
		a.broke("epoch: a gate from before its rebuild was not recognised: it refuses a buyer for an order that has been cancelled")
		return nil
	}
	return err
}
