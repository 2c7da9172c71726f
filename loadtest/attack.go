package loadtest

import (
	"context"
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"github.com/tsenart/vegeta/v12/lib/plot"
)

const (
	// attackConns bounds connections. A request that waits for one is already
	// on the clock: its latency includes the wait.
	attackConns = 1024
	// attackWorkers bounds requests in flight. Below it the attack is open
	// loop: slow answers do not slow down the sending.
	attackWorkers = 10_000
)

// attack sends the planned requests and books every result. It returns when
// all are answered or given up, and the closings they led to are done.
func (r *run) attack(ctx context.Context) error {
	conns := transport(attackConns)
	defer conns.CloseIdleConnections()
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: conns, Timeout: r.c.Timeout, CheckRedirect: noRedirects}),
		vegeta.Workers(64),
		vegeta.MaxWorkers(attackWorkers),
		vegeta.MaxBody(maxBody),
	)
	stop := context.AfterFunc(ctx, func() { attacker.Stop() })
	defer stop()

	plan := newTargets(r.c, r.crowd.buyers)
	after := r.newFollowers(r.c.requests())
	done := make(chan struct{})
	go func() {
		defer close(done)
		after.Run(ctx)
	}()

	r.progress.start("attack", r.c.requests())
	var fault error
	for res := range attacker.Attack(plan.target, pace(r.c), 0, "orders") {
		if err := r.book(plan, after, res); err != nil && fault == nil {
			fault = err
			attacker.Stop()
		}
	}
	r.progress.end()

	r.progress.start("cancellations and payments under way", 0)
	after.close()
	<-done
	r.progress.end()
	return fault
}

// book turns one result into a record and passes it to whom it concerns.
func (r *run) book(plan *targets, after *followers, res *vegeta.Result) error {
	a, n, err := plan.numbered(res.URL)
	if err != nil {
		return err
	}
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
	return r.plot.Add(res)
}

// newPlot draws latencies with one line each for yes, no and neither.
func newPlot() *plot.Plot {
	return plot.New(
		plot.Title("Latency of each order"),
		plot.Downsample(4000),
		plot.Label(func(res *vegeta.Result) string {
			switch {
			case res.Code >= 200 && res.Code < 300:
				return "accepted"
			case res.Code >= 300 && res.Code < 500:
				return "refused"
			}
			return "ERROR or no answer"
		}),
	)
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
