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
	// attackConns limits connections. A request that waits for a connection has a
	// longer latency.
	attackConns = 1024
	// attackWorkers limits requests in flight. Below this limit, slow answers do not
	// delay later requests.
	attackWorkers = 10_000
)

// attack sends the planned requests and records each result with its sale. It returns
// after the last answer or timeout, and after the payments and cancellations that
// follow.
func attack(ctx context.Context, c Config, crowd *crowd, conns *http.Client, runs []*run) error {
	// The followers get the other half of InFlight. Without it, a server that hangs
	// could leave them no connection.
	inFlight := cmp.Or((c.InFlight+1)/2, attackWorkers)
	if c.InFlight > 0 && c.CancelShare+c.Payments == 0 { // no followers
		inFlight = c.InFlight
	}
	attacker := vegeta.NewAttacker(
		vegeta.Client(conns),
		vegeta.Workers(uint64(min(64, inFlight))),
		vegeta.MaxWorkers(uint64(inFlight)),
		vegeta.MaxBody(client.MaxBody),
	)
	stop := context.AfterFunc(ctx, func() { attacker.Stop() })
	defer stop()

	var (
		background sync.WaitGroup // watchers and followers
		arriving   = newArrivals(c, crowd.buyers)
		plans      []*targets
		after      []*followers
		stocks     []*stockLine
	)
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	for i, r := range runs {
		following := r.newFollowers(c.requests())
		plans, after = append(plans, newTargets(r.c, i, arriving)), append(after, following)
		stocks = append(stocks, &r.stock)
		background.Go(func() { following.Run(ctx) })
		background.Go(func() { r.watch(watching, len(runs)) })
	}
	background.Go(func() { runs[0].feed.follow(watching) })
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
		if c.InFlight == 0 || c.Paced { // otherwise orders wait for calls to end
			// vegeta numbers requests in the order of their timestamps.
			runs[sale].late = append(runs[sale].late, max(0, res.Timestamp.Sub(began)-plan.due(res.Seq)))
		}
		runs[sale].book(plans[sale], after[sale], a, n, res)
		if c.InFlight > 0 && !c.Paced {
			runs[sale].slowDown(ctx, int(res.Code))
		}
	}
	for i := range after {
		after[i].close()
	}
	unwatch()
	background.Wait()
	progress.end()
	return fault
}

// slowDown waits 100 ms after a 503. After a call without an answer, it waits until the
// server answers again. Otherwise an attack with InFlight would send all its orders
// while the server restarts, because it sends one whenever a call ends.
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

// book records one result and passes it to the plan and the followers.
func (r *run) book(plan *targets, after *followers, a attempt, n int, res *vegeta.Result) {
	// If the body is incomplete, vegeta reports status 0, which Decode treats as no
	// answer.
	req := judge.Request{
		Kind: a.kind, Attack: true, Buyer: a.buyer.Subject, Key: a.key, Quantity: a.quantity,
		Sent: res.Timestamp, Latency: res.Latency,
		Answer: client.Decode(int(res.Code), res.Headers, res.Body),
	}
	r.ledger.requests.add(req)
	if req.Status == http.StatusCreated {
		plan.accept(n)
	}
	if a.kind != judge.Replay {
		after.offer(a, req)
	}
	r.progress.add(req)
}
