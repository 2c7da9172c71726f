package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"flashsale/cmd/flashsale/internal/prove/bench"
	"flashsale/cmd/flashsale/internal/prove/lab"
)

type benchCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Benchmarks to run, see --list. Default: all."`

	Rounds      int  `default:"3" help:"Measurements of each side; the median counts. Default ${default}."`
	Seconds     int  `default:"3" help:"Length of one measurement. Default ${default}."`
	Connections int  `default:"256" help:"Connections that wrk holds open. Default ${default}."`
	JSON        bool `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr."`
	Quiet       bool `help:"No progress."`
	List        bool `help:"List the benchmarks, and stop."`
}

// Run measures. A missed target is a result; only a measurement that failed is
// an error.
func (c *benchCommand) Run(ctx context.Context, s streams) error {
	if c.List {
		return bench.List(s.out)
	}
	cfg, err := labConfig(s, c.Quiet)
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, bench.Config{Config: cfg, Names: c.Names, Rounds: c.Rounds, Seconds: c.Seconds, Connections: c.Connections})
	if err != nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	return errors.Join(write(s.out), report.Err())
}

// labConfig is for commands on private stores and nodes.
func labConfig(s streams, quiet bool) (c lab.Config, err error) {
	if err := cleanEnvironment(); err != nil {
		return c, err
	}
	if c.Program, err = os.Executable(); err != nil {
		return c, fmt.Errorf("find this program: %w", err)
	}
	if !quiet {
		c.Progress = s.err
	}
	return c, nil
}

// cleanEnvironment is for commands that start nodes, which inherit the
// environment: what it sets for a server of the user's must not change what is
// measured. What begins with FLASHSALE_TEST_ sets nothing of a node: it names the
// servers to start.
func cleanEnvironment() error {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "FLASHSALE_") && !strings.HasPrefix(name, "FLASHSALE_TEST_") {
			if err := os.Unsetenv(name); err != nil {
				return fmt.Errorf("unset %s: %w", name, err)
			}
		}
	}
	return nil
}

// ginBaselineCommand is what the benchmarks compare with, as a process of its own.
type ginBaselineCommand struct {
	Addr string `required:"" placeholder:"HOST:PORT"`
}

// Run serves until it is told to stop.
func (c *ginBaselineCommand) Run(ctx context.Context) error { return bench.Hello(ctx, c.Addr) }
