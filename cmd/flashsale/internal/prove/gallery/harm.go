package gallery

import (
	"context"
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers/wire"
)

// The harm that is done to every variant alike, while its sale is under attack.
// None of it is far-fetched, and what is right survives all of it. The moments
// hang on how much has been sold, by numbers drawn from the seed: fast and slow
// variants are hit in the same state.

// How late Redis answers, and how late MySQL hears: more or
// less, so that what is sent first need not arrive first.
const (
	redisLate, redisJitter = 5 * time.Millisecond, 2 * time.Millisecond
	mysqlLate, mysqlJitter = 50 * time.Millisecond, 30 * time.Millisecond
)

// slowly is the harm of the rush: both stores are slow until nothing has been
// sold for a while, or for some seconds. Much is under way at any moment.
func slowly(ctx context.Context, s *stage, _ Config) error {
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

// crashes is the harm of the second sale. First Redis is out of reach, and the
// process that waits for it is killed: what it had finished in the database,
// and not begun in Redis, is left. Then Redis does at once what it is asked, its
// answers come late and then not at all, and the process is killed again: what it
// had begun is left.
func crashes(ctx context.Context, s *stage, c Config) error {
	random := rand.New(rand.NewPCG(uint64(c.Seed), 0))
	// Early: on a busy machine a life takes its time to begin, and it is to end while
	// buyers still come.
	sold := func() int { return c.Rate/8 + random.IntN(c.Rate/16) }
	block := func() (mend func(), err error) { return s.node.Redis.Lose(wire.Requests), nil }
	late := func() (mend func(), err error) {
		s.node.Redis.Delay(wire.Answers, answersLate, 0)
		// A new connection waits for an answer before it is of use: let there
		// be some that are not new.
		return func() { s.node.Redis.Delay(wire.Answers, 0, 0) }, client.Wait(ctx, 2*answersLate)
	}
	if err := s.killWith(ctx, block, sold()); err != nil {
		return err
	}
	return s.killWith(ctx, late, sold())
}

// answersLate is by how much Redis answers late, before the process is killed while it
// waits. After the look at the orders there are no answers: as long again, and what
// comes next has been sent. However late the kill then comes on a busy machine,
// none of it was answered.
const answersLate = 400 * time.Millisecond

// some cancellations are under way when the process is killed. A slow variant may
// have none in three seconds: what is right need not be hit.
const some = 4

// killWith lets so many orders be sold, spoils the link to Redis, waits until
// some buyers have cancelled, and kills the variant. Then it is started again.
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
	err = s.until(ctx, 3*time.Second, func(_, cancelled int) bool { return cancelled >= before+some })
	answer := s.node.Redis.Lose(wire.Answers)
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

// until waits for a count, or for so long: a sale may have no more of it.
func (s *stage) until(ctx context.Context, most time.Duration, enough func(stored, cancelled int) bool) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	_ = lab.Poll(limited, 5*time.Millisecond, func() (bool, error) { return enough(s.count(limited)), nil })
	return ctx.Err()
}
