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
	Names []string `arg:"" optional:"" name:"name" help:"Names of benchmarks to run; --list lists them. Default: all."`

	Rounds      int  `default:"3" help:"Measurements per program, of which the median is reported. Default ${default}."`
	Seconds     int  `default:"3" help:"Length of one measurement in seconds. Default ${default}."`
	Connections int  `default:"256" help:"Connections that wrk holds open. Default ${default}."`
	JSON        bool `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr."`
	Quiet       bool `help:"Do not print progress."`
	List        bool `help:"List the benchmarks and exit."`
}

// Run measures and prints the report. A missed target is not an error; a failed
// measurement is.
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

// labConfig returns the Config of commands that start private stores and nodes. It also
// removes the settings of nodes from the environment.
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

// cleanEnvironment unsets the FLASHSALE_ variables, because the nodes that a command
// starts inherit the environment. A user's settings for their own server must not change
// the measurement. FLASHSALE_TEST_ variables remain: they name the stores to start.
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

// ginBaselineCommand runs a minimal gin server in a separate process, for benchmarks.
type ginBaselineCommand struct {
	Addr string `required:"" placeholder:"HOST:PORT"`
}

// Run serves until ctx is canceled.
func (c *ginBaselineCommand) Run(ctx context.Context) error { return bench.Hello(ctx, c.Addr) }
