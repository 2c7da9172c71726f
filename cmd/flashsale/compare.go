package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery"
)

type compareCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Variants to compare, see --list. Default: all."`

	Rounds  int           `default:"1" help:"Judgements of each variant; all must agree. Default ${default}."`
	Rate    int           `default:"250" placeholder:"ORDERS" help:"Orders per second of the attacks. Default ${default}."`
	Seed    int64         `default:"1" help:"Seed of requests and faults; requests still interleave differently. Default ${default}."`
	Speed   time.Duration `default:"3s" help:"Length of each speed measurement; 0 for none. Default ${default}."`
	Callers int           `default:"128" help:"Concurrent buyers of a speed measurement. Default ${default}."`

	Report string `placeholder:"DIR" help:"Write compare.txt, compare.svg and compare.json there." group:"Result"`
	JSON   bool   `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr." group:"Result"`
	Quiet  bool   `help:"No progress." group:"Result"`
	List   bool   `help:"List the variants, and stop." group:"Result"`
}

// Help shows what to try.
func (compareCommand) Help() string {
	return `Needs redis-server and mariadbd or mysqld, and starts private ones. For example:

  flashsale compare --list
  flashsale compare --report out        and open out/compare.svg`
}

// Run compares. The exit status is 1 if a right variant fails or a broken one
// is not caught.
func (c *compareCommand) Run(ctx context.Context, s streams) error {
	if c.List {
		return gallery.List(s.out)
	}
	cfg := gallery.Config{Names: c.Names, Rounds: c.Rounds, Rate: c.Rate, Seed: c.Seed, Speed: c.Speed, Callers: c.Callers}
	if !c.Quiet {
		cfg.Progress = s.err
	}
	report, err := gallery.Run(ctx, cfg)
	if report != nil && c.Report != "" {
		if saving := report.Save(c.Report); saving != nil {
			err = errors.Join(err, fmt.Errorf("save the report: %w", saving))
		}
	}
	return finish(s, report, c.JSON, err)
}
