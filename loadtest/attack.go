package loadtest

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

const (
	// attackConns bounds connections. The time that a request waits for one is
	// part of its latency.
	attackConns = 1024
	// attackWorkers bounds requests in flight. Below the bound, slow answers do
	// not slow down the sending.
	attackWorkers = 10_000
)

// attack sends the planned requests and records each result with its sale. It
// returns when all requests have an answer or were given up, and the payments
// and cancellations that followed are done.
func attack(ctx context.Context, c Config, crowd *crowd, conns *http.Client, runs []*run) error {
	// The other half of InFlight is reserved for the followers, because all calls of the
	// attack may be waiting for a server that hangs.
	inFlight := cmp.Or((c.InFlight+1)/2, attackWorkers)
	attacker := vegeta.NewAttacker(
		vegeta.Client(conns),
		vegeta.Workers(uint64(min(64, inFlight))),
		vegeta.MaxWorkers(uint64(inFlight)),
		vegeta.MaxBody(client.MaxBody),
	)
	stop := context.AfterFunc(ctx, func() { attacker.Stop() })
	defer stop()

	var (
		beside   sync.WaitGroup // what runs during the attack, and ends after it
		arriving = newArrivals(c, crowd.buyers)
		plans    []*targets
		after    []*followers
		stocks   []*stockLine
	)
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	for i, r := range runs {
		following := r.newFollowers(c.requests())
		plans, after = append(plans, newTargets(r.c, i, arriving)), append(after, following)
		stocks = append(stocks, &r.stock)
		beside.Go(func() { following.Run(ctx) })
		beside.Go(func() { r.watch(watching, len(runs)) })
	}
	m := newSaleMix(c, plans)

	progress := runs[0].progress
	progress.start("attack", c.requests(), stocks...)
	var fault error
	plan, began := pace(ctx, c), time.Now()
	for res := range attacker.Attack(m.target, plan, 0, "orders") {
		a, sale, n, err := m.numbered(res.URL)
		if err != nil {
			fault = err
			attacker.Stop()
			continue
		}
		if c.InFlight == 0 { // with InFlight, orders have no time at which they are due
			// vegeta numbers requests in the order of their timestamps.
			runs[sale].late = append(runs[sale].late, max(0, res.Timestamp.Sub(began)-plan.due(res.Seq)))
		}
		runs[sale].book(plans[sale], after[sale], a, n, res)
		if c.InFlight > 0 {
			runs[sale].slowDown(ctx, int(res.Code))
		}
	}
	for i := range after {
		after[i].close()
	}
	unwatch()
	beside.Wait()
	progress.end()
	return fault
}

// slowDown waits 100 ms after a 503. After a call without an answer, it waits until the
// server answers again. Otherwise an attack with InFlight, which sends an order whenever an
// answer returns, would send all its orders while the server restarts.
func (r *run) slowDown(ctx context.Context, status int) {
	ctx, stop := context.WithTimeout(ctx, r.patience.known)
	defer stop()
	if status == http.StatusServiceUnavailable {
		_ = client.Wait(ctx, 100*time.Millisecond)
	}
	for status == 0 {
		if _, err := r.operator.Offer(ctx); err == nil || client.StatusOf(err) != 0 || client.Wait(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// book records one result and passes it on to the plan and to the followers.
func (r *run) book(plan *targets, after *followers, a attempt, n int, res *vegeta.Result) {
	// vegeta reports status 0 when the body broke off: that is no answer.
	req := judge.Request{
		Kind: a.kind, Attack: true, Buyer: a.buyer.Subject, Key: a.key, Quantity: a.quantity,
		Sent: res.Timestamp, Latency: res.Latency,
		Answer: client.Decode(int(res.Code), res.Headers, res.Body),
	}
	r.ledger.requests.add(req)
	if req.Status == http.StatusCreated {
		plan.took(n)
	}
	if a.kind != judge.Replay {
		after.offer(a, req)
	}
	r.progress.add(req)
}
