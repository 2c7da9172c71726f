package gallery

import (
	"context"
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers/wire"
)

// This file has the faults that every variant gets while its sale is under attack.
// All of them happen in production, and a right variant survives them. Their times
// depend on how much is sold, by numbers drawn from the seed, so that fast and slow
// variants are in the same state when a fault strikes.

// Delays of Redis's answers and of requests to MySQL. The jitter lets requests
// arrive in another order than they were sent.
const (
	redisLate, redisJitter = 5 * time.Millisecond, 2 * time.Millisecond
	mysqlLate, mysqlJitter = 50 * time.Millisecond, 30 * time.Millisecond
)

// slowStores is the fault of the rush. Both stores are slow until nothing has been
// sold for one second, or for at most four seconds. Many orders are then in flight
// at any moment.
func slowStores(ctx context.Context, s *stage, _ Config) error {
	s.node.Redis.Delay(wire.Answers, redisLate, redisJitter)
	if s.node.MySQL != nil {
		s.node.MySQL.Delay(wire.Requests, mysqlLate, mysqlJitter)
	}
	last, since := 0, time.Now()
	err := s.until(ctx, 4*time.Second, func(stored, _ int) bool {
		if stored != last {
			last, since = stored, time.Now()
		}
		return stored > 0 && time.Since(since) > time.Second
	})
	s.node.Redis.Delay(wire.Answers, 0, 0)
	if s.node.MySQL != nil {
		s.node.MySQL.Delay(wire.Requests, 0, 0)
	}
	return err
}

// kills is the fault of the second trial. It kills the process twice:
//   - first while Redis is out of reach, so that work is left that is finished in
//     the database and not begun in Redis;
//   - then while Redis executes commands whose answers do not arrive, so that work
//     is left that is begun in Redis.
func kills(ctx context.Context, s *stage, c Config) error {
	random := rand.New(rand.NewPCG(uint64(c.Seed), 0))
	// Kill the process early. Restarting is slow on a busy machine, and the process
	// must be back while buyers are still arriving.
	sold := func() int { return c.Rate/8 + random.IntN(c.Rate/16) }
	block := func() (mend func(), err error) { return s.node.Redis.DropTraffic(wire.Requests), nil }
	late := func() (mend func(), err error) {
		s.node.Redis.Delay(wire.Answers, answersLate, 0)
		// A new connection is usable only after a late answer. Wait until some
		// connections are established.
		return func() { s.node.Redis.Delay(wire.Answers, 0, 0) }, client.Wait(ctx, 2*answersLate)
	}
	if err := s.killWith(ctx, block, sold()); err != nil {
		return err
	}
	return s.killWith(ctx, late, sold())
}

// answersLate is the delay of Redis's answers before the second kill. killWith waits
// as long again after it has stopped the answers, so every command of that moment has
// been sent and none has been answered, however late the kill comes.
const answersLate = 400 * time.Millisecond

// cancelsBeforeKill is the number of cancellations for which killWith waits, at most three
// seconds. A slow variant may not reach it, which cannot make a right variant fail.
const cancelsBeforeKill = 4

// killWith waits for a number of orders, spoils the link to Redis, waits until some buyers
// have cancelled, and kills the variant. Then it restarts the variant.
func (s *stage) killWith(ctx context.Context, spoil func() (mend func(), err error), orders int) error {
	before, _ := s.count(ctx)
	if err := s.until(ctx, lab.Patience, func(stored, _ int) bool { return stored >= before+orders }); err != nil {
		return err
	}
	mend, err := spoil()
	if err != nil {
		return err
	}
	_, before = s.count(ctx)
	err = s.until(ctx, 3*time.Second, func(_, cancelled int) bool { return cancelled >= before+cancelsBeforeKill })
	answer := s.node.Redis.DropTraffic(wire.Answers)
	if err == nil {
		err = client.Wait(ctx, answersLate)
	}
	s.node.Kill()
	answer()
	mend()
	if err != nil {
		return err
	}
	return s.node.Restart(ctx)
}

// until waits until enough returns true, or until limit has passed, because a sale
// may end before. It returns an error only if ctx ends.
func (s *stage) until(ctx context.Context, limit time.Duration, enough func(stored, cancelled int) bool) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = lab.Poll(limited, 5*time.Millisecond, func() (bool, error) { return enough(s.count(limited)), nil })
	return ctx.Err()
}
