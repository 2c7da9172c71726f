package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

var soldOut = benchmark{
	name:  "soldout",
	about: "refusals of a sold-out sale, against a gin handler; and what they cost Redis",
	needs: []tool{wrkTool},
	rows: []Row{
		{Item: "3a", Name: "sold-out refusals / gin hello", Unit: "req/s", Target: atLeast(0.85)},
		// None is meant: what is left are the questions of each 100 ms.
		{Item: "3b", Name: "Redis commands per refusal", Unit: "commands", Target: atMost(0.01)},
	},
	run: runSoldOut,
}

func runSoldOut(ctx context.Context, l *lab, rows []Row) (err error) {
	ours, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	hello, err := l.startHello(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hello.Close()) }()
	sale, err := ours.sellOut(ctx, 1000)
	if err != nil {
		return err
	}
	idle, err := ours.idleCommands(ctx)
	if err != nil {
		return err
	}
	var commands []float64
	mine := func(ctx context.Context) (sample, error) {
		start, before := time.Now(), int64(0)
		if before, err = ours.commands(ctx); err != nil {
			return sample{}, err
		}
		s, refusals, err := ours.refuse(ctx, sale, l.cfg.Seconds)
		if err != nil {
			return sample{}, err
		}
		after, err := ours.commands(ctx)
		commands = append(commands, max(0, float64(after-before)-idle*time.Since(start).Seconds())/float64(refusals))
		return s, err
	}
	theirs := l.greeting(hello.Addr(), hello.Pid(), "")
	if err := l.warm(ctx, mine, theirs); err != nil {
		return err
	}
	commands = nil
	if err := l.compare(ctx, &rows[0], mine, theirs); err != nil {
		return err
	}
	rows[1].Ours = median(commands)
	rows[1].judge()
	return nil
}

// sellOut opens a sale of a few units and sells them to buyers who are not of
// the crowd: those who hold units are no refusals, their requests go to Redis.
func (n *node) sellOut(ctx context.Context, units int) (sale string, err error) {
	sale = n.l.next("sale")
	if err := n.openSale(ctx, sale, 1, units); err != nil {
		return "", n.logged(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range units {
		g.Go(func() error { return n.hold(ctx, sale, strconv.Itoa(i)) })
	}
	return sale, n.logged(g.Wait())
}

// hold orders a unit, and asks again under the same key until it has it.
func (n *node) hold(ctx context.Context, sale, number string) error {
	token, err := n.l.verifier.Sign("holder-"+number, false, time.Hour)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last error
	err = poll(ctx, 100*time.Millisecond, func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url("/v1/orders"),
			strings.NewReader(fmt.Sprintf(`{"sku":"%s-000","quantity":1}`, sale)))
		if err != nil {
			return false, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Idempotency-Key", "hold")
		_, last = n.do(req, http.StatusCreated)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("sell out %s: %w", sale, errors.Join(err, last))
	}
	return nil
}

// refuse has wrk ask for what is sold out.
func (n *node) refuse(ctx context.Context, sale string, seconds int) (sample, int64, error) {
	before, err := n.answered(ctx, http.StatusConflict, "sold_out")
	if err != nil {
		return sample{}, 0, n.logged(err)
	}
	stop := n.meter.start()
	r, err := n.l.wrk(ctx, n.process.Addr(), load{sale: sale, skus: 1, seconds: seconds})
	if err != nil {
		return sample{}, 0, n.logged(err)
	}
	cpu := stop(float64(r.requests))
	after, err := n.answered(ctx, http.StatusConflict, "sold_out")
	if err != nil {
		return sample{}, 0, n.logged(err)
	}
	if err := checkRefusals(r, after-before, n.l.cfg.Connections); err != nil {
		return sample{}, 0, n.logged(err)
	}
	return sample{value: r.perSecond(r.requests), cpu: cpu}, r.requests, nil
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

// commands is how many commands Redis has processed, those in scripts included.
func (n *node) commands(ctx context.Context) (int64, error) {
	info, err := n.redis.Info(ctx, "stats").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its counters: %w", err)
	}
	return infoNumber(info, "total_commands_processed"), nil
}

// idleCommands is how many a second Redis gets from a node that has nothing to do.
func (n *node) idleCommands(ctx context.Context) (perSecond float64, err error) {
	start := time.Now()
	before, err := n.commands(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := n.commands(ctx)
	return float64(after-before) / time.Since(start).Seconds(), err
}
