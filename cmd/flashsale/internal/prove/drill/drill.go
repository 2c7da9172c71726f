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

// Config configures a run.
type Config struct {
	lab.Config
	Seed     int64  // determines the times of the faults and the requests of the buyers
	Strategy string // one of variants.Strategies
	Keep     bool   // keep the logs if a promise was broken

	Names    []string      // drills to run, see function Names, or Storm alone; none means all drills
	Rate     int           // orders per second
	InFlight int           // limit of concurrent calls of the attack; 0 means none
	Duration time.Duration // duration of each attack; it must be long enough to end the fault

	Length time.Duration // duration of the storm, without the time to settle after each round
	Faults []string      // names of the faults of the storm; none means all

	// MySQLFolder contains the mysqld of MySQL 9, for a replication group.
	MySQLFolder string

	// Asynchronous makes MySQL's primary commit without waiting for its replica. If the
	// replica is then promoted, orders are lost.
	Asynchronous bool
}

// Storm is the name of the storm in Config.Names.
const Storm = "storm"

// Names returns the drills that run if no drill is named, in this order.
func Names() []string { return names(func(f *fault) bool { return f.sees != "" && !f.byName() }) }

// ByName returns the drills that run only if they are named.
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

// List writes the drills and the faults of the storm.
func List(w io.Writer) error {
	var out strings.Builder
	for _, f := range catalogue {
		if f.sees != "" {
			fmt.Fprintf(&out, "%s\n  happens  %s\n  buyer    %s\n  never    %s\n", f.name, f.happens, f.sees, f.never)
		}
	}
	fmt.Fprintf(&out, "storm (by itself, with --minutes)\n  happens  faults drawn from a seed, one or two at a time, see below\n"+
		"  buyer    503 or 202 for a moment, then the final answer\n"+
		"  never    oversell; two orders under one key; an acceptance lost; a final refusal followed by an acceptance; "+
		"a payment both taken and refunded; a sale that stands still although a node is healthy; a unit stranded\n")
	for _, f := range catalogue {
		if f.inStorm() {
			fmt.Fprintf(&out, "  %-22s %s\n", f.name, f.happens)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Validate returns an error that names every invalid field.
func (c Config) Validate() error {
	f := c.Config.Errors()
	if err := variants.CheckStrategy(c.Strategy); err != nil {
		f = append(f, err)
	}
	if slices.Contains(c.Names, Storm) {
		f.Require(len(c.Names) == 1, "the storm runs by itself: flashsale drill storm")
		f.Require(c.Strategy == variants.Lua, "the storm needs a keeper, and strategy %s has none", c.Strategy)
		f.Require(c.Length >= 5*time.Second && c.Length <= 24*time.Hour, "--minutes: %v, want 5s to 24h", c.Length)
		f.RequireKnown("fault", c.Faults, names((*fault).inStorm))
		return errors.Join(f...)
	}
	f.Require(c.Rate >= 10 && c.Rate <= 100_000, "--rate: %d, want 10 to 100000 per second", c.Rate)
	f.Require(c.Duration >= 5*time.Second && c.Duration <= time.Hour, "--duration: %v, want 5s to 1h", c.Duration)
	f.RequireKnown("drill", c.Names, slices.Concat(Names(), ByName(), []string{Storm}))
	f.Require(c.MySQLFolder != "" || !slices.Contains(c.Names, groupFailover), "%s: needs MySQL 9, see --mysqld", groupFailover)
	return errors.Join(f...)
}

// Run runs drills one after the other, or the storm. When it returns, everything that
// it started has ended. If a drill cannot be carried out, its row contains the error,
// and the remaining drills run. Run itself returns an error if servers are not
// installed or ctx ended. The report then contains the drills completed so far.
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
		case ctx.Err() != nil: // an interrupted drill proves nothing
			return report, ctx.Err()
		case errors.Is(err, servers.ErrNotInstalled):
			return nil, err
		case err != nil:
			row.fail(err)
			cfg.Progressf("%s: %v", f.name, err)
		}
		cfg.Progressf("%s: %s", f.name, row.Verdict)
		report.Drills = append(report.Drills, row)
	}
	return report, nil
}
