package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

// Config of a run.
type Config struct {
	lab.Config
	Seed     int64  // fixes the times of the faults and the requests of the buyers
	Strategy string // how the nodes sell, see variants.Strategies
	Keep     bool   // the logs, if a promise was broken

	Names    []string      // of the drills to run, see Names, or Storm alone; none means all drills
	Rate     int           // orders per second
	Duration time.Duration // of each attack: long enough for the fault to be mended within it

	Length time.Duration // of all rounds of the storm together, without the time they take to settle
	Faults []string      // of the storm: names of those to draw from; none means all

	// MySQLFolder has the mysqld of MySQL 9, for a replication group.
	MySQLFolder string

	// Asynchronous has MySQL's primary not wait for its replica, which loses
	// orders where the replica is promoted.
	Asynchronous bool
}

// Storm is named like a drill, and runs by itself.
const Storm = "storm"

// Names of the drills that are run where none is asked for, in that order.
func Names() []string { return names(func(f *fault) bool { return f.sees != "" && !f.byName() }) }

// ByName are those that are run only where they are asked for.
func ByName() []string { return names((*fault).byName) }

func names(of func(*fault) bool) (all []string) {
	for _, f := range catalogue {
		if of(f) {
			all = append(all, f.name)
		}
	}
	return all
}

// inStorm reports whether storms draw the fault.
func (f *fault) inStorm() bool { return f.variants > 0 }

// List writes what can be run.
func List(w io.Writer) error {
	var out strings.Builder
	for _, f := range catalogue {
		if f.sees != "" {
			fmt.Fprintf(&out, "%s\n  happens  %s\n  buyer    %s\n  never    %s\n", f.name, f.happens, f.sees, f.never)
		}
	}
	fmt.Fprintf(&out, "storm (by itself, with --minutes)\n  happens  faults drawn from a seed, one or two at a time, see below\n"+
		"  buyer    503 or 202 for a moment, then the truth\n"+
		"  never    oversell; two orders under one key; a yes lost; a definite no that becomes a yes; "+
		"a payment both taken and refunded; a sale that stands still beside a healthy node; a unit stranded\n")
	for _, f := range catalogue {
		if f.inStorm() {
			fmt.Fprintf(&out, "  %-22s %s\n", f.name, f.happens)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	f := c.Config.Faults()
	if err := variants.CheckStrategy(c.Strategy); err != nil {
		f = append(f, err)
	}
	if slices.Contains(c.Names, Storm) {
		f.Unless(len(c.Names) == 1, "the storm runs by itself: flashsale drill storm")
		f.Unless(c.Strategy == variants.Lua, "the storm needs a keeper, and strategy %s has none", c.Strategy)
		f.Unless(c.Length >= 5*time.Second && c.Length <= 24*time.Hour, "duration: %v, want 5s to 24h", c.Length)
		f.Known("fault", c.Faults, names((*fault).inStorm))
		return errors.Join(f...)
	}
	f.Unless(c.Rate >= 10 && c.Rate <= 100_000, "rate: %d, want 10 to 100000 per second", c.Rate)
	f.Unless(c.Duration >= 5*time.Second && c.Duration <= time.Hour, "duration: %v, want 5s to 1h", c.Duration)
	f.Known("drill", c.Names, append(Names(), ByName()...))
	f.Unless(c.MySQLFolder != "" || !slices.Contains(c.Names, groupFailover), "%s: needs MySQL 9, see --mysqld", groupFailover)
	return errors.Join(f...)
}

// Run runs drills one after the other, or the storm. Everything it started has ended when
// it returns. A drill that could not be carried out leaves its error in its row,
// and the others run. The error is for what concerns all of them: servers that
// are not installed, a context that ended; the report then has the drills that
// were done by then.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	report := &Report{Seed: cfg.Seed, Strategy: cfg.Strategy, Faults: cfg.Faults, Drills: []Row{}}
	if slices.Contains(cfg.Names, Storm) {
		return report, runStorm(ctx, cfg, report)
	}
	report.Rate, report.Seconds = cfg.Rate, cfg.Duration.Seconds()
	for _, f := range catalogue {
		if f.sees == "" || !slices.Contains(cfg.Names, f.name) && (len(cfg.Names) > 0 || f.byName()) {
			continue
		}
		row, err := f.run(ctx, cfg, report)
		switch {
		case ctx.Err() != nil: // what was seen so far proves nothing
			return report, ctx.Err()
		case errors.Is(err, servers.ErrNotInstalled):
			return nil, err
		case err != nil:
			row.fail(err)
			cfg.Say("%s: %v", f.name, err)
		}
		cfg.Say("%s: %s", f.name, row.Verdict)
		report.Drills = append(report.Drills, row)
	}
	return report, nil
}
