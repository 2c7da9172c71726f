package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers"
)

// drills are all there are, in the order of the failure table.
var drills = []drill{
	nodeKilled, nodeStopped, keeperPaused, keeperLate, keeperDiesRestoring,
	redisEmptied, redisFailover, redisGoesBack, redisInvents, redisLatency, redisOneWayCut, redisGone,
	mysqlRestarted, commitAnswerLost,
	paidAtExpiry,
	clockOffset,
	mysqlFailover, mysqlPaused, groupFailover,
}

// Names of the drills that are run where none is asked for, in that order.
func Names() []string { return names(false) }

// ByName are those that are run only where they are asked for.
func ByName() []string { return names(true) }

func names(byName bool) (all []string) {
	for _, d := range drills {
		if d.byName() == byName {
			all = append(all, d.name)
		}
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
	return errors.Join(err, listStorm(w))
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
		if !slices.Contains(cfg.Names, d.name) && (len(cfg.Names) > 0 || d.byName()) {
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
			cfg.Say("%s: %v", d.name, err)
		}
		cfg.Say("%s: %s", d.name, row.Verdict)
		report.Drills = append(report.Drills, row)
	}
	return report, nil
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	f := c.Faults()
	f.Unless(c.Rate >= 10 && c.Rate <= 100_000, "rate: %d, want 10 to 100000 per second", c.Rate)
	f.Unless(c.Duration >= 5*time.Second && c.Duration <= time.Hour, "duration: %v, want 5s to 1h", c.Duration)
	f.Known("drill", c.Names, append(Names(), ByName()...))
	f.Unless(c.MySQLFolder != "" || !slices.Contains(c.Names, groupFailover.name), "%s: needs MySQL 9, see --mysqld", groupFailover.name)
	return errors.Join(f...)
}

// run carries one drill out: the servers, the attack with the fault in it, the
// verdict.
func (d drill) run(ctx context.Context, cfg Config, all *Report) (row Row, err error) {
	row = Row{Name: d.name, Done: []string{}, Violations: []string{}}
	if d.keeper && cfg.Strategy != variants.Lua {
		row.unjudged("needs a keeper, and strategy " + cfg.Strategy + " has none")
		cfg.Say("%s: %s", d.name, row.Violations[0])
		return row, nil
	}
	cfg.Say("%s: %s", d.name, d.happens)
	s, err := d.open(ctx, cfg)
	if err != nil {
		return row, fmt.Errorf("set the stage: %w", err)
	}
	var verdict *report.Report
	defer func() {
		if cfg.Keep && ctx.Err() == nil && (err != nil || verdict.ExitCode() != judge.ExitPass) {
			var text bytes.Buffer
			if verdict != nil {
				err = errors.Join(err, verdict.WriteText(&text))
			}
			var keepErr error
			row.Logs, keepErr = s.KeepLogs("drill-"+s.name, map[string][]byte{"verdict.txt": text.Bytes()})
			err = errors.Join(err, keepErr)
		}
		err = errors.Join(err, s.Close())
	}()
	all.Stores = s.Stores.Versions

	// A fault that still waits for the attack when there is none any more gives up.
	faulty, stop := context.WithCancel(ctx)
	defer stop()
	faulted := make(chan error, 1)
	go func() {
		err := s.moment(faulty)
		if err == nil {
			err = d.fault(faulty, s)
		}
		faulted <- err
	}()
	verdict, err = loadtest.Run(ctx, s.attack())
	stop()
	if fault := <-faulted; fault != nil && err == nil {
		err = fmt.Errorf("bring the fault about: %w", fault)
	}
	row.Done = append(row.Done, s.events...)
	if verdict != nil {
		row.judge(verdict, cfg.Duration)
		row.breaks(s.breaks)
	}
	return row, err
}

// attack is the load on the sale. Half of what is asked for is on sale: selling
// is well under way when the fault begins, goes on after it, and the last units
// are fought for even if it stood still for half of the time.
func (s *stage) attack() loadtest.Config {
	c := loadtest.Defaults()
	c.Target, c.SKU, c.Name = s.balancer.URL(), sku, "Drill"
	c.Token = s.Token
	c.Rate, c.Duration = s.cfg.Rate, s.cfg.Duration
	c.Buyers = int(float64(c.Rate) * c.Duration.Seconds())
	c.Stock = c.Buyers / 2
	c.Seed = s.cfg.Seed
	c.Timeout = clientTimeout
	c.Strategy, c.Stores = s.cfg.Strategy, s.Stores.Kind
	return c
}
