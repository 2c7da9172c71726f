package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"flashsale/loadtest/servers"
)

// Config of a run.
type Config struct {
	Names    []string      // of the drills to run, see Names; none means all
	Seed     int64         // of the moments of harm, and of the attack
	Rate     int           // orders per second
	Duration time.Duration // of each attack: long enough for the harm to be mended within it
	Strategy string        // how the nodes guard stock, as in serve
	Program  string        // this program's path, for its nodes
	Keep     bool          // the logs of drills that did not pass
	Progress io.Writer     // may be nil
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Rate >= 10 && c.Rate <= 100_000, "rate: %d, want 10 to 100000 per second", c.Rate)
	check(c.Duration >= 5*time.Second && c.Duration <= time.Hour, "duration: %v, want 5s to 1h", c.Duration)
	check(c.Strategy != "", "strategy: none")
	check(c.Program != "", "program: no path")
	for _, name := range c.Names {
		check(slices.Contains(Names(), name), "no drill is called %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return errors.Join(errs...)
}

// A drill is one row of the failure table.
type drill struct {
	name    string
	happens string
	sees    string // the buyer
	never   string // is true

	// What the drill needs between the nodes and their stores.
	redisLink, mysqlLink bool
	replica              bool // of Redis, behind a link of its own
	clocks               bool // of the nodes differ
	wires                bool // from each node to each store, one of its own
	nodeArgs             []string

	// harm is done while the attack runs. It also mends what it broke, even
	// after ctx has ended, which only makes it hurry. What it sees for itself
	// that must not be, it reports with broke; an error means that there was no
	// harm, and nothing was seen.
	harm func(ctx context.Context, s *stage) error
}

// drills are all there are, in the order of the failure table.
var drills = []drill{
	nodeKilled, nodeStopped, keeperPaused, keeperLate, keeperDiesRestoring,
	redisEmptied, redisFailover, redisGoesBack, redisInvents, redisLatency, redisOneWayCut, redisGone,
	mysqlRestarted, commitAnswerLost,
	paidAtExpiry,
	clockOffset,
}

// Names of all drills, in the order they are run in.
func Names() []string {
	var all []string
	for _, d := range drills {
		all = append(all, d.name)
	}
	return all
}

// List writes what can be run.
func List(w io.Writer) error {
	var out strings.Builder
	for _, d := range drills {
		fmt.Fprintf(&out, "%s\n  happens  %s\n  buyer    %s\n  never    %s\n", d.name, d.happens, d.sees, d.never)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Run runs drills one after the other. Everything it started has ended when it
// returns. A drill that could not be carried out leaves its error in its row,
// and the others run. The error is for what concerns all of them: servers that
// are not installed, a context that ended; the report then has the drills that
// were done by then.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	report := &Report{Seed: cfg.Seed, Rate: cfg.Rate, Seconds: cfg.Duration.Seconds(), Strategy: cfg.Strategy, Drills: []Row{}}
	for _, d := range drills {
		if len(cfg.Names) > 0 && !slices.Contains(cfg.Names, d.name) {
			continue
		}
		row, err := d.run(ctx, cfg, report)
		switch {
		case ctx.Err() != nil: // what was seen so far proves nothing
			return report, ctx.Err()
		case errors.Is(err, servers.ErrNotInstalled):
			return nil, err
		case err != nil:
			row.fail(err)
			cfg.say("%s: %v", d.name, err)
		}
		cfg.say("%s: %s", d.name, row.Verdict)
		report.Drills = append(report.Drills, row)
	}
	return report, nil
}

func (c Config) say(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}
