package main

import (
	"context"
	"errors"

	"flashsale/cmd/flashsale/internal/prove/gallery"
	"flashsale/loadtest/report"
)

type compareCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Names of variants to compare; --list lists them. Default: all."`

	Rounds int   `default:"1" help:"Number of runs of each variant. All runs must have the same verdict. Default ${default}."`
	Rate   int   `default:"250" placeholder:"ORDERS" help:"Orders per second of the attacks. Default ${default}."`
	Seed   int64 `default:"1" help:"Seed of the random requests and faults. The order in which requests arrive still varies between runs. Default ${default}."`

	JSON  bool `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr."`
	Quiet bool `help:"Do not print progress."`

	Report string `placeholder:"DIR" help:"Write compare.html, compare.json and compare.txt to this directory."`

	List bool `help:"List the variants and exit."`
}

// Help shows examples.
func (compareCommand) Help() string {
	return `Starts a private redis-server and mariadbd or mysqld, which must be installed. Examples:

  flashsale compare --list
  flashsale compare get-decr lock-per-order

To measure how fast the correct variants are: flashsale bench lock variants.`
}

// Run compares the variants. The exit status is 1 if a correct variant fails or the
// fault of a broken variant is not found.
func (c *compareCommand) Run(ctx context.Context, s streams) error {
	if c.List {
		return gallery.List(s.out)
	}
	if c.Report != "" {
		if err := report.CheckDir(c.Report); err != nil { // fail before the attacks
			return err
		}
	}
	cfg, err := labConfig(s, c.Quiet)
	if err != nil {
		return err
	}
	result, err := gallery.Run(ctx, gallery.Config{Config: cfg, Names: c.Names, Rounds: c.Rounds, Rate: c.Rate, Seed: c.Seed})
	if result != nil {
		result.Command, result.Program = commandLine(s.args), version()
		if c.Report != "" {
			err = errors.Join(err, result.Save(c.Report))
		}
	}
	return finish(s, result, c.JSON, err)
}
