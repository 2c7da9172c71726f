package gallery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers"
)

// A trial is one sale that is attacked while a fault is injected.
type trial struct {
	name    string
	seconds int     // duration of the attack
	cancels float64 // share of the orders
	fault   func(ctx context.Context, s *stage, c Config) error
}

// trials are the two sales by which a variant is judged. In the first, many orders
// are in flight when the last units are sold. Few orders are cancelled, because
// cancellations could hide an oversale. The second tests the release of units.
var trials = []trial{
	{"rush", 3, 0.02, slowStores},
	{"crashes", 5, 0.5, kills},
}

// Judge runs the trials of a variant on empty stores, and adds their verdicts to
// its row.
func Judge(ctx context.Context, cfg Config, stores *servers.Stores, row *Row) {
	verdicts, err := judgeTrials(ctx, cfg, stores, row.Variant)
	if err != nil {
		row.Error = err.Error()
		return
	}
	row.judged(verdicts)
}

func judgeTrials(ctx context.Context, cfg Config, stores *servers.Stores, v variants.Variant) (verdicts []*report.Report, err error) {
	s, err := openStage(ctx, cfg, v, stores)
	if err != nil {
		return nil, fmt.Errorf("start the variant: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, t := range trials {
		if len(cfg.Trials) > 0 && !slices.Contains(cfg.Trials, t.name) {
			continue
		}
		verdict, err := s.run(ctx, cfg, t)
		if err != nil {
			return nil, fmt.Errorf("run the trial %s: %w", t.name, err)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// run attacks the variant and injects the fault at the same time.
func (s *stage) run(ctx context.Context, cfg Config, t trial) (*report.Report, error) {
	c := loadtest.Defaults()
	c.Target, c.Name, c.SKU = s.node.URL(), "Gallery", t.name
	c.Token = s.Token
	c.Rate, c.Duration = cfg.Rate, time.Duration(t.seconds)*time.Second
	c.Buyers, c.Stock = c.Rate*t.seconds, c.Rate*3/2
	c.CancelShare = t.cancels
	if s.variant.OnPayment {
		c = c.ForPayment()
		c.Stock /= 2 // buyers pay once orders exceed the stock twice; less stock leaves time for that
	}
	c.Seed = cfg.Seed
	c.InFlight, c.Repair, c.Patience, c.Search = cfg.InFlight, cfg.Repair, cfg.Patience, cfg.Search
	c.Timeout = max(30*time.Second, cfg.Patience) // slow variants must be right, not fast
	c.Strategy, c.Stores = s.variant.Name, s.Stores.Kind

	s.sku = t.name
	faulty, stop := context.WithCancel(ctx)
	defer stop()
	injected := make(chan error, 1)
	go func() { injected <- t.fault(faulty, s, cfg) }()
	verdict, err := loadtest.Run(ctx, c)
	stop()
	fault := <-injected
	if errors.Is(fault, context.Canceled) && err == nil {
		// The fault waited for further orders when the sale ended. The verdict is
		// valid for the faults up to then.
		fault = nil
		verdict.Notes = append(verdict.Notes, "the sale ended before all faults were injected")
		cfg.Progressf("%s, %s: the sale ended before all faults were injected", s.variant.Name, t.name)
	}
	if fault != nil && err == nil && ctx.Err() == nil {
		err = fmt.Errorf("inject the fault: %w", fault)
	}
	return verdict, errors.Join(err, ctx.Err())
}
