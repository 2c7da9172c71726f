package main

import (
	"context"
	"errors"
	"time"

	"flashsale/cmd/flashsale/internal/gallery"
)

type compareCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Variants to compare, see --list. Default: all."`

	Rounds  int           `default:"1" help:"How often each variant is judged; it must come out alike each time. Default ${default}."`
	Rate    int           `default:"250" placeholder:"ORDERS" help:"Orders per second of the attacks. Default ${default}."`
	Seed    int64         `default:"1" help:"Fixes what is asked for and the moments of harm, not how requests interleave. Default ${default}."`
	Speed   time.Duration `default:"3s" help:"How long the speed of each is measured; 0 for not at all. Default ${default}."`
	Callers int           `default:"128" help:"Who order at the same time while it is. Default ${default}."`

	Report string `placeholder:"DIR" help:"Write compare.html, compare.svg and compare.json there." group:"Result"`
	JSON   bool   `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr." group:"Result"`
	Quiet  bool   `help:"No progress." group:"Result"`
	List   bool   `help:"List the variants, and stop." group:"Result"`
}

// Help shows what to try.
func (compareCommand) Help() string {
	return `Needs redis-server and mariadbd or mysqld, and starts private ones. For example:

  flashsale compare --list
  flashsale compare --report out        and open out/compare.html`
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
	if report == nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	// Also after Ctrl-C: the variants that were compared by then count.
	err = errors.Join(err, write(s.out))
	if c.Report != "" {
		err = errors.Join(err, report.Save(c.Report))
	}
	if err != nil {
		return err
	}
	if code := report.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}
