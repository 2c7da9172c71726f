package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

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
		// None is meant: what is left are the questions of each 100 ms.
		{Item: "3b", Name: "Redis commands per refusal", Unit: "commands", Target: atMost(0.01)},
	},
	run: runSoldOut,
}

func runSoldOut(ctx context.Context, l *bench, rows []Row) error {
	ours, hello, err := l.besideHello(ctx)
	if err != nil {
		return err
	}
	sale, err := ours.sellOut(ctx, 1000)
	if err != nil {
		return err
	}
	start := time.Now()
	resting, err := ours.commands(ctx, func() error { return client.Wait(ctx, 2*time.Second) })
	if err != nil {
		return err
	}
	idle := resting / time.Since(start).Seconds()
	var commands []float64
	mine := func(ctx context.Context) (s sample, err error) {
		var refusals int64
		start := time.Now()
		asked, err := ours.commands(ctx, func() error {
			s, refusals, err = ours.refuse(ctx, sale)
			return err
		})
		commands = append(commands, max(0, asked-idle*time.Since(start).Seconds())/float64(refusals))
		return s, err
	}
	if err := l.contest(ctx, rows[:1], mine, l.greeting(hello, "")); err != nil {
		return err
	}
	rows[1].set(median(commands[1:])) // the first was to get warm
	return nil
}

// sellOut opens a sale of a few units and sells them to buyers who are not of
// the crowd: those who hold units are no refusals, their requests go to Redis.
func (n *node) sellOut(ctx context.Context, units int) (sale string, err error) {
	sale = n.l.next("sale")
	if err := n.openSale(ctx, sale, 1, units); err != nil {
		return "", err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range units {
		g.Go(func() error { return n.hold(ctx, sale, strconv.Itoa(i)) })
	}
	return sale, g.Wait()
}

// hold orders a unit, and asks again under the same key until it has it.
func (n *node) hold(ctx context.Context, sale, number string) error {
	token, err := n.l.Token("holder-"+number, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	buyer, c := client.Buyer{Token: token}, client.New(n.URL(), sale+"-000", http.DefaultClient)
	var last judge.Request
	err = lab.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		last = c.Order(ctx, judge.First, buyer, "hold", 1)
		return last.Status == http.StatusCreated, nil
	})
	if err != nil {
		return fmt.Errorf("sell out %s: %w: %s", sale, err, last.Reason())
	}
	return nil
}

// refuse has wrk ask for what is sold out.
func (n *node) refuse(ctx context.Context, sale string) (s sample, requests int64, err error) {
	var r wrkResult
	conflicts, err := n.answering(ctx, http.StatusConflict, "sold_out", func() (err error) {
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

// checkRefusals holds wrk's count against the node's count of 409: all must
// have been refused, and because the sale is sold out. One in a hundred may
// have been answered 503, by a store that was slow for a moment, and the node
// has answered some that wrk no longer waited for.
func checkRefusals(r wrkResult, conflicts int64, connections int) error {
	if r.good() > 0 || conflicts < r.requests*99/100 || conflicts > r.requests+int64(connections) {
		return fmt.Errorf("%w: of %d requests %d were accepted; the node counts %d refusals", errCounts, r.requests, r.good(), conflicts)
	}
	return nil
}

// commands is how many commands Redis gets meanwhile, those in scripts included.
func (n *node) commands(ctx context.Context, do func() error) (float64, error) {
	return during(do, func() (float64, error) {
		info, err := n.redis.Info(ctx, "stats").Result()
		return lab.Number(info, "total_commands_processed:"), err
	})
}
