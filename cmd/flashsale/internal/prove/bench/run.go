package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Validate returns an error that names every invalid field.
func (c Config) Validate() error {
	f := c.Config.Errors()
	f.Require(c.Rounds >= 1 && c.Rounds <= 100, "--rounds: %d, want 1 to 100", c.Rounds)
	f.Require(c.Seconds >= 1 && c.Seconds <= 600, "--seconds: %d, want 1 to 600", c.Seconds)
	f.Require(c.Connections >= 1 && c.Connections <= 4096, "--connections: %d, want 1 to 4096", c.Connections)
	f.RequireKnown("benchmark", c.Names, names())
	return errors.Join(f...)
}

func (c Config) wants(b benchmark) bool {
	return len(c.Names) == 0 || slices.Contains(c.Names, b.name)
}

// benchmarks lists all benchmarks in the order of the report.
var benchmarks = []benchmark{perOrder, otherWays, durable, queued, soldOut, gate, keeperRows, direct, latency, manySKUs, rebuild, hoarder, replays, changes}

func names() []string {
	var all []string
	for _, b := range benchmarks {
		all = append(all, b.name)
	}
	return all
}

// List writes the names of the benchmarks and what they measure.
func List(w io.Writer) error {
	for _, b := range benchmarks {
		if _, err := fmt.Fprintf(w, "%-10s %s\n", b.name, b.about); err != nil {
			return err
		}
	}
	return nil
}

// Run runs benchmarks one after the other. When it returns, everything that it
// started has ended. The rows of a failed benchmark contain its error, and the
// remaining benchmarks run; see Report.Err. Run itself returns an error if servers
// are not installed or ctx ended.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := openBench(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	report := &Report{Machine: l.machine(ctx), Rounds: cfg.Rounds, Seconds: cfg.Seconds, Connections: cfg.Connections}
	for _, b := range benchmarks {
		if !cfg.wants(b) {
			continue
		}
		rows := slices.Clone(b.rows)
		if missing := missing(b.needs); missing != "" {
			for i := range rows {
				rows[i].Needs = missing
			}
		} else {
			l.Progressf("%s: %s", b.name, b.about)
			if err := l.do(ctx, b, rows); err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				l.Progressf("%s: FAILED: %v", b.name, err)
				report.failed = append(report.failed, fmt.Errorf("run benchmark %s: %w", b.name, err))
				for i := range rows {
					rows[i].Error = err.Error()
				}
			}
		}
		report.Rows = append(report.Rows, rows...)
	}
	return report, nil
}
