package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Config of a run.
type Config struct {
	Names       []string  // of the benchmarks to run, see List; none means all
	Rounds      int       // measurements of each side, of which the median counts
	Seconds     int       // of one measurement
	Connections int       // that wrk holds open, each with one request at a time
	Program     string    // this program's path, for its nodes
	Progress    io.Writer // may be nil
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Rounds >= 1 && c.Rounds <= 100, "rounds: %d, want 1 to 100", c.Rounds)
	check(c.Seconds >= 1 && c.Seconds <= 600, "seconds: %d, want 1 to 600", c.Seconds)
	check(c.Connections >= 1 && c.Connections <= 4096, "connections: %d, want 1 to 4096", c.Connections)
	check(c.Program != "", "program: no path")
	for _, name := range c.Names {
		check(slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }),
			"no benchmark is called %q: there are %s", name, strings.Join(names(), ", "))
	}
	return errors.Join(errs...)
}

// A benchmark yields one or several rows of the report.
type benchmark struct {
	name  string
	about string
	needs []tool
	rows  []Row // what is filled in by run
	run   func(ctx context.Context, l *lab, rows []Row) error
}

// benchmarks are all there are, in the order of their targets.
var benchmarks = []benchmark{perOrder, durable, queued, soldOut, gate, keeper, direct, latency, manySKUs, memory, rebuild, reconcile, metrics}

func names() []string {
	var all []string
	for _, b := range benchmarks {
		all = append(all, b.name)
	}
	return all
}

// List writes what can be run.
func List(w io.Writer) error {
	for _, b := range benchmarks {
		if _, err := fmt.Fprintf(w, "%-10s %s\n", b.name, b.about); err != nil {
			return err
		}
	}
	return nil
}

// Run runs benchmarks one after the other. Everything it started has ended
// when it returns. A benchmark that fails leaves its error in its rows and the
// others run: see Report.Err. The error is for what concerns all of them:
// servers that are not installed, a context that ended.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l, err := openLab(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	report := &Report{Machine: l.machine(ctx), Rounds: cfg.Rounds, Seconds: cfg.Seconds, Connections: cfg.Connections}
	for _, b := range benchmarks {
		if len(cfg.Names) > 0 && !slices.Contains(cfg.Names, b.name) {
			continue
		}
		rows := slices.Clone(b.rows)
		if missing := l.missing(b.needs); missing != "" {
			for i := range rows {
				rows[i].Needs = missing
			}
		} else {
			l.say("%s: %s", b.name, b.about)
			if err := b.run(ctx, l, rows); err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				l.say("%s: FAILED: %v", b.name, err)
				report.failed = append(report.failed, fmt.Errorf("%s: %w", b.name, err))
				for i := range rows {
					rows[i].Error = err.Error()
				}
			}
		}
		report.Rows = append(report.Rows, rows...)
	}
	return report, nil
}
