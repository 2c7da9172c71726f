// Package gallery compares ways to sell limited stock: common wrong ways, common
// right ways, and this project. All of them serve the same routes and get the same
// attack and the same faults. The load test judges them from outside. Package bench
// measures how fast the right ways are.
//
//	variants/    the ways to sell, one file each
//	front.go     the routes of the API contract, for any shop
//	variant.go   a shop behind these routes, as a server
//	stage.go     a variant, or the real service, as a process that can be killed
//	faults.go    the faults that every variant gets
//	judge.go     the attack and the verdict
//	report.go    the result
package gallery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

// Config configures a run.
type Config struct {
	lab.Config
	Names  []string // variants to compare, see function Names; none means all
	Rounds int      // number of times that each variant is judged; the verdicts must agree
	Rate   int      // orders per second of the attacks
	Seed   int64    // seed of the attack and of the times of faults; each round uses the next seed

	// Tests set these fields, to save time and to be independent of the machine.
	Trials   []string // names of the trials to run; none means all
	InFlight int      // InFlight to Search are fields of loadtest.Config
	Repair   time.Duration
	Patience time.Duration
	Search   time.Duration
}

// Validate returns an error that names every invalid field.
func (c Config) Validate() error {
	f := c.Config.Errors()
	f.Require(c.Rounds >= 1 && c.Rounds <= 1000, "--rounds: %d, want 1 to 1000", c.Rounds)
	f.Require(c.Rate >= 50 && c.Rate <= 5000, "--rate: %d, want 50 to 5000", c.Rate)
	f.RequireKnown("variant", c.Names, Names())
	return errors.Join(f...)
}

// List writes the variants that can be compared.
func List(w io.Writer) error {
	var out strings.Builder
	for _, v := range All() {
		fmt.Fprintf(&out, "%s\n  does     %s\n", v.Name, v.Does)
		if v.Broken() {
			fmt.Fprintf(&out, "  breaks   %s\n  verdict  %s\n", v.Breaks, v.Caught)
		}
		if v.Note != "" {
			fmt.Fprintf(&out, "  note     %s\n", v.Note)
		}
		fmt.Fprintf(&out, "  source   %s\n", v.Source)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Run compares variants on private real servers. When it returns, everything that
// it started has ended. If a variant cannot be tested, its row contains the error.
// Run returns an error if no variant can be tested, for example because servers are
// not installed, or if ctx ended. The report then has the variants judged so far.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Progressf("starting private servers")
	stores, err := servers.StartReal(ctx, servers.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	report := &Report{
		Stores: stores.Versions, Cores: runtime.NumCPU(), Rate: cfg.Rate, Rounds: cfg.Rounds, Seed: cfg.Seed,
	}
	for _, v := range All() {
		if len(cfg.Names) == 0 || slices.Contains(cfg.Names, v.Name) {
			report.Rows = append(report.Rows, NewRow(v))
		}
	}
	if err := judgeAll(ctx, cfg, stores.MySQL, report.Rows); err != nil {
		report.Rows = slices.DeleteFunc(report.Rows, func(r Row) bool { return r.Rounds == 0 })
		return report, err
	}
	return report, nil
}

// sideBySide is the number of variants judged in parallel. Judging is mostly waiting.
const sideBySide = 3

// judgeAll judges each variant cfg.Rounds times.
func judgeAll(ctx context.Context, cfg Config, db *servers.MySQL, rows []Row) error {
	var judging errgroup.Group
	judging.SetLimit(sideBySide)
	for i := range rows {
		judging.Go(func() error {
			err := judgeRounds(ctx, cfg, db, &rows[i])
			cfg.Progressf("%s: %s", rows[i].Name, rows[i].VerdictText())
			return err
		})
	}
	return judging.Wait()
}

// judgeRounds judges one variant. Each round gets a new Redis and a new database.
func judgeRounds(ctx context.Context, cfg Config, db *servers.MySQL, row *Row) error {
	for round := range cfg.Rounds {
		cfg.Progressf("%s: judging, round %d of %d", row.Name, round+1, cfg.Rounds)
		redis, err := servers.StartRedis(ctx, servers.RedisConfig{AppendFsync: "always"})
		if err != nil {
			return err
		}
		dsn, err := db.NewDatabase(ctx, fmt.Sprint("gallery_", databases.Add(1)))
		if err == nil {
			Judge(ctx, cfg, &servers.Stores{Kind: servers.KindReal, RedisURL: redis.URL, SQL: dsn}, row)
		}
		if err = errors.Join(err, redis.Close(), ctx.Err()); err != nil || row.Error != "" {
			return err
		}
		cfg.Seed++
	}
	return nil
}

// databases counts the databases created so far. The count makes their names unique.
var databases atomic.Int64
