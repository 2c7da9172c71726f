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

// An act is a sale that is attacked while something is done to the variant.
type act struct {
	name    string
	seconds int     // of the attack
	cancels float64 // share of the orders
	harm    func(ctx context.Context, s *stage, c Config) error
}

// acts are the two sales by which a variant is judged. In the first one much is
// under way when the last units go; few are cancelled, or oversold units would
// find their way back. The second one is about giving back.
var acts = []act{
	{"rush", 3, 0.02, slowly},
	{"crashes", 5, 0.5, crashes},
}

// Judge puts a variant on empty stores, has it attacked and harmed, and adds the
// verdicts on the acts to its row.
func Judge(ctx context.Context, cfg Config, stores *servers.Stores, row *Row) {
	verdicts, err := judgeActs(ctx, cfg, stores, row.Variant)
	if err != nil {
		row.Error = err.Error()
		return
	}
	row.judged(verdicts)
}

func judgeActs(ctx context.Context, cfg Config, stores *servers.Stores, v variants.Variant) (verdicts []*report.Report, err error) {
	s, err := openStage(ctx, cfg, v, stores)
	if err != nil {
		return nil, fmt.Errorf("set the stage: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, a := range acts {
		if len(cfg.Acts) > 0 && !slices.Contains(cfg.Acts, a.name) {
			continue
		}
		verdict, err := s.play(ctx, cfg, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// play attacks and harms.
func (s *stage) play(ctx context.Context, cfg Config, a act) (*report.Report, error) {
	c := loadtest.Defaults()
	c.Target, c.Name, c.SKU = s.node.URL(), "Gallery", a.name
	c.Token = s.Token
	c.Rate, c.Duration = cfg.Rate, time.Duration(a.seconds)*time.Second
	c.Buyers, c.Stock = c.Rate*a.seconds, c.Rate*3/2
	c.Cancels = a.cancels
	if s.variant.OnPayment {
		c = c.ForPayment()
		c.Stock /= 2 // all wait until twice as much is wanted, and then there is to be some time left
	}
	c.Seed = cfg.Seed
	c.InFlight, c.Repair, c.Patience, c.Search = cfg.InFlight, cfg.Repair, cfg.Patience, cfg.Search
	c.Timeout = max(30*time.Second, cfg.Patience) // slow variants have to be right, not fast
	c.Strategy, c.Stores = s.variant.Name, s.Stores.Kind

	s.sku = a.name
	harming, stop := context.WithCancel(ctx)
	defer stop()
	harmed := make(chan error, 1)
	go func() { harmed <- a.harm(harming, s, cfg) }()
	verdict, err := loadtest.Run(ctx, c)
	stop()
	harm := <-harmed
	if errors.Is(harm, context.Canceled) && err == nil {
		// It waited for more to be sold, and there was no more: all that was done
		// until then is judged.
		harm = nil
		verdict.Notes = append(verdict.Notes, "the sale was over before all harm was done")
		cfg.Say("%s, %s: the sale was over before all harm was done", s.variant.Name, a.name)
	}
	if harm != nil && err == nil && ctx.Err() == nil {
		err = fmt.Errorf("do the harm: %w", harm)
	}
	return verdict, errors.Join(err, ctx.Err())
}
