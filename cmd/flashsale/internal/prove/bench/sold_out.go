package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

var soldOut = benchmark{
	name:  "soldout",
	about: "refusals of a sold-out sale, against a gin handler; and what they cost Redis",
	needs: wrkProgram,
	rows: []Row{
		{Item: "3a", Name: "sold-out refusals / gin hello", Unit: "req/s", Target: atLeast(0.85)},
		// Refusals need no commands. The node asks every 100 ms whether the sale is still sold out.
		{Item: "3b", Name: "Redis commands per refusal", Unit: "commands", Target: atMost(0.01)},
	},
	run: runSoldOut,
}

func runSoldOut(ctx context.Context, l *bench, rows []Row) error {
	ours, hello, err := l.startWithHello(ctx)
	if err != nil {
		return err
	}
	sale, err := ours.sellOut(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	resting, err := ours.commands(ctx, func() error { return client.Wait(ctx, 2*time.Second) })
	if err != nil {
		return err
	}
	idle := resting / time.Since(start).Seconds()
	var commands []float64 // Redis commands per refusal, one value for each measurement
	refusing := func(ctx context.Context) (s sample, err error) {
		var refusals int64
		start := time.Now()
		asked, err := ours.commands(ctx, func() error {
			s, refusals, err = ours.refuse(ctx, sale)
			return err
		})
		commands = append(commands, max(0, asked-idle*time.Since(start).Seconds())/float64(refusals))
		return s, err
	}
	if err := l.contest(ctx, rows[:1], refusing, l.greeting(hello, "")); err != nil {
		return err
	}
	rows[1].set(median(commands[1:])) // the first measurement only warmed up
	return nil
}

// sellOut opens a sale of one unit and sells it to a buyer outside the crowd. A buyer
// who has units would reach Redis with every request.
func (n *node) sellOut(ctx context.Context) (sale string, err error) {
	sale = n.l.next("sale")
	if err := n.openSale(ctx, sale, 1, 1); err != nil {
		return "", err
	}
	token, err := n.l.Token("holder", false)
	if err != nil {
		return "", err
	}
	c := client.New(n.URL(), sale+"-000", http.DefaultClient)
	return sale, lab.Until(ctx, 100*time.Millisecond, sale+" is sold out", func(ctx context.Context) (bool, error) {
		return c.Order(ctx, judge.First, client.Buyer{Token: token}, "hold", 1).Status == http.StatusCreated, nil
	})
}

// refuse measures wrk's requests in a sold-out sale.
func (n *node) refuse(ctx context.Context, sale string) (s sample, requests int64, err error) {
	var r wrkResult
	conflicts, err := n.answeredDuring(ctx, http.StatusConflict, "sold_out", func() (err error) {
		stop := n.meter.start()
		r, err = n.l.wrk(ctx, n.Addr(), load{sale: sale, skus: 1})
		s.cpu = stop(float64(r.requests))
		return err
	})
	if err != nil {
		return s, 0, err
	}
	s.value = r.perSecond(r.requests)
	return s, r.requests, checkRefusals(r, conflicts, n.l.cfg.Connections)
}

// checkRefusals compares wrk's count of requests with the node's count of 409: all
// must be refused because the sale is sold out. Two deviations are allowed: up to one
// in a hundred 503s from a slow store, and answers that wrk no longer waited for.
func checkRefusals(r wrkResult, conflicts int64, connections int) error {
	if r.good() > 0 || conflicts < r.requests*99/100 || conflicts > r.requests+int64(connections) {
		return fmt.Errorf("%w: of %d requests %d were accepted, and the node counts %d refusals; want no acceptance and one refusal per request", errCounts, r.requests, r.good(), conflicts)
	}
	return nil
}

// commands returns how many commands Redis processes during do, including commands
// in scripts.
func (n *node) commands(ctx context.Context, do func() error) (float64, error) {
	return growth(do, func() (float64, error) {
		info, err := n.redis.Info(ctx, "stats").Result()
		return lab.ParseMetric(info, "total_commands_processed:"), err
	})
}
