package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"flashsale/cmd/flashsale/internal/drill"
)

type drillCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Drills to run, see --list. Default: all."`

	Seed     int64         `placeholder:"NUMBER" help:"Fixes the moments of harm and what is asked for, not how requests interleave. Default: a new one, printed."`
	Rate     int           `default:"300" placeholder:"PER-SECOND" help:"Orders per second. Default ${default}."`
	Duration time.Duration `default:"10s" help:"Of each attack. Default ${default}."`
	Strategy string        `default:"lua" help:"How stock is guarded, as in serve: a broken one, such as no-limit, shows that a drill can fail. Default ${default}."`

	Keep  bool `help:"Keep the logs of drills that did not pass, and print where they are."`
	JSON  bool `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr."`
	Quiet bool `help:"No progress."`
	List  bool `help:"List the drills, and stop."`
}

// Help shows what to try.
func (drillCommand) Help() string {
	return `Needs redis-server and mariadbd or mysqld, and starts private ones. For example:

  flashsale drill --list
  flashsale drill node-killed redis-failover
  flashsale drill --strategy no-limit   a broken gate: see drills fail`
}

// Run does harm to a sale of its own and judges what became of it.
func (c *drillCommand) Run(ctx context.Context, s streams) error {
	if c.List {
		return drill.List(s.out)
	}
	if err := cleanEnvironment(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cfg := drill.Config{
		Names: c.Names, Seed: c.Seed, Rate: c.Rate, Duration: c.Duration, Strategy: c.Strategy, Program: program, Keep: c.Keep,
	}
	if cfg.Seed == 0 {
		cfg.Seed = 1 + rand.Int64N(1_000_000)
	}
	if !c.Quiet {
		cfg.Progress = s.err
		_, _ = fmt.Fprintln(s.err, "seed:", cfg.Seed)
	}
	report, err := drill.Run(ctx, cfg)
	if report == nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	// Also after Ctrl-C: the drills that were done count.
	if err := errors.Join(err, write(s.out)); err != nil {
		return err
	}
	if code := report.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}
