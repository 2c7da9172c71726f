package loadtest

import (
	"context"
	"net/http"
	"sync"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

const (
	// attackConns bounds connections. A request that waits for one is already
	// on the clock: its latency includes the wait.
	attackConns = 1024
	// attackWorkers bounds requests in flight. Below it the attack is open
	// loop: slow answers do not slow down the sending.
	attackWorkers = 10_000
)

// attack sends the planned requests and books every result with its sale. It
// returns when all are answered or given up, and the closings they led to are
// done.
func attack(ctx context.Context, c Config, crowd *crowd, runs []*run) error {
	conns := transport(attackConns)
	defer conns.CloseIdleConnections()
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: conns, Timeout: c.Timeout, CheckRedirect: noRedirects}),
		vegeta.Workers(64),
		vegeta.MaxWorkers(attackWorkers),
		vegeta.MaxBody(maxBody),
	)
	stop := context.AfterFunc(ctx, func() { attacker.Stop() })
	defer stop()

	var (
		beside   sync.WaitGroup // what goes on while the attack does, and ends after it
		arriving = newArrivals(c, crowd.buyers)
		plans    []*targets
		after    []*followers
	)
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	for i, r := range runs {
		following := r.newFollowers(c.requests())
		plans, after = append(plans, newTargets(r.c, i, arriving)), append(after, following)
		beside.Go(func() { following.Run(ctx) })
		beside.Go(func() { r.watch(watching, len(runs)) })
	}
	m := newMix(c, plans)

	progress := runs[0].progress
	progress.attack(c.requests(), runs)
	var fault error
	for res := range attacker.Attack(m.target, pace(ctx, c), 0, "orders") {
		a, sale, n, err := m.numbered(res.URL)
		if err != nil {
			fault = err
			attacker.Stop()
			continue
		}
		runs[sale].book(plans[sale], after[sale], a, n, res)
	}
	for i := range after {
		after[i].close()
	}
	unwatch()
	beside.Wait()
	progress.end()
	return fault
}

// book turns one result into a record and passes it to whom it concerns.
func (r *run) book(plan *targets, after *followers, a attempt, n int, res *vegeta.Result) {
	// vegeta reports no status when the body broke off: that is no answer.
	req := Request{
		Kind: a.kind, Attack: true, Buyer: a.buyer.subject, Key: a.key, Quantity: a.quantity,
		Sent: res.Timestamp, Latency: res.Latency,
		Answer: decode(int(res.Code), res.Headers, res.Body),
	}
	r.ledger.request(req)
	if req.Status == http.StatusCreated {
		plan.took(n)
	}
	if a.kind != Replay {
		after.offer(a, req)
	}
	r.progress.answered(req)
}

// thinkTime is how long a buyer looks at an accepted order before paying or
// cancelling it: long enough that units come back while others still fight
// for them. Where they fight for the payment, nobody thinks.
func (c Config) thinkTime() time.Duration {
	if c.onPayment() {
		return 0
	}
	return min(c.Duration/10, 200*time.Millisecond)
}
