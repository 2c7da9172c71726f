package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"flashsale/cmd/flashsale/internal/bench"
)

type benchCommand struct {
	Names []string `arg:"" optional:"" name:"name" help:"Benchmarks to run, see --list. Default: all."`

	Rounds      int  `default:"3" help:"Measurements of each side, of which the median counts. Default ${default}."`
	Seconds     int  `default:"3" help:"Of one measurement. Default ${default}."`
	Connections int  `default:"256" help:"That wrk holds open. Default ${default}."`
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
	if err := cleanEnvironment(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cfg := bench.Config{Names: c.Names, Rounds: c.Rounds, Seconds: c.Seconds, Connections: c.Connections, Program: program}
	if !c.Quiet {
		cfg.Progress = s.err
	}
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	write := report.WriteText
	if c.JSON {
		write = report.WriteJSON
	}
	return errors.Join(write(s.out), report.Err())
}

// cleanEnvironment is for commands that start nodes, which inherit the
// environment: what it sets for a server of the user's must not change what is
// measured.
func cleanEnvironment() error {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "FLASHSALE_") {
			if err := os.Unsetenv(name); err != nil {
				return fmt.Errorf("unset %s: %w", name, err)
			}
		}
	}
	return nil
}

// helloCommand is what the benchmarks compare with, as a process of its own.
type helloCommand struct {
	Addr string `required:"" placeholder:"HOST:PORT"`
}

// Run serves until it is told to stop.
func (c *helloCommand) Run(ctx context.Context) error { return bench.Hello(ctx, c.Addr) }
