// Package gallery compares ways to sell limited stock: each wrong one that is
// known, each right one that people think of, and this project's own. All are
// put behind the same routes, attacked in the same way, harmed in the same way,
// and judged from outside by the load test's verdict. Then the speed of each is
// measured.
//
//	shops/       the ways to sell, a file each
//	front.go     the routes of the contract, for any shop
//	variant.go   a shop, or the real service, as a process that can die
//	stage.go     links to the stores and to the buyers
//	harm.go      what is done to all of them
//	judge.go     attack and verdict
//	speed.go     durable orders per second
//	report.go    what came of it; text.go, chart.go and html.go show it
package gallery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/gallery/shops"
	"flashsale/loadtest/servers"
)

// Config of a run.
type Config struct {
	Names    []string      // of the variants, see Names; none means all
	Rounds   int           // each variant is judged so often, and has to be judged alike each time
	Rate     int           // orders per second of the attacks
	Seed     int64         // of the attack and of the moments of harm; each round has the next one
	Speed    time.Duration // how long the speed is measured; 0: it is not
	Callers  int           // who order at the same time meanwhile
	Progress io.Writer     // may be nil

	acts   []string      // by which variants are judged; none means all. Tests have less time
	search time.Duration // as in a load test
}

// Defaults is the comparison that the README shows.
func Defaults() Config {
	return Config{Rounds: 1, Rate: 250, Seed: 1, Speed: 3 * time.Second, Callers: 128}
}

// Validate names everything that is wrong, at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Rounds >= 1 && c.Rounds <= 1000, "rounds: %d, want 1 to 1000", c.Rounds)
	check(c.Rate >= 50 && c.Rate <= 5000, "rate: %d, want 50 to 5000", c.Rate)
	check(c.Speed >= 0 && c.Speed <= time.Minute, "speed: %v, want 0 to 1m", c.Speed)
	check(c.Callers >= 1 && c.Callers <= 1000, "callers: %d, want 1 to 1000", c.Callers)
	for _, name := range c.Names {
		check(slices.Contains(Names(), name), "no variant is called %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return errors.Join(errs...)
}

func (c Config) say(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// List writes what can be compared.
func List(w io.Writer) error {
	var out strings.Builder
	for _, v := range variants() {
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

// Run compares variants on private real servers: judges them, some side by side,
// and then measures each on its own. Everything it started has ended when it
// returns. A variant that could not be put to the test leaves its error in its
// row. The error is for what concerns all: servers that are not installed, a
// context that ended; the report then has what was done by then.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.say("starting private servers")
	stores, err := servers.Real(ctx, servers.Options{Redis: servers.RedisOptions{AppendFsync: "always"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	report := &Report{
		Stores: stores.Versions, Cores: runtime.NumCPU(), Rate: cfg.Rate, Rounds: cfg.Rounds, Seed: cfg.Seed,
		SpeedSeconds: cfg.Speed.Seconds(), Callers: cfg.Callers,
	}
	chosen := slices.DeleteFunc(variants(), func(v shops.Variant) bool {
		return len(cfg.Names) > 0 && !slices.Contains(cfg.Names, v.Name)
	})
	report.Rows = make([]Row, len(chosen))
	for i, v := range chosen {
		report.Rows[i] = newRow(v)
	}
	if err := judgeAll(ctx, cfg, stores, chosen, report.Rows); err != nil {
		report.Rows = slices.DeleteFunc(report.Rows, func(r Row) bool { return r.Rounds == 0 })
		return report, err
	}
	for i, v := range chosen {
		row := &report.Rows[i]
		if cfg.Speed > 0 && row.Error == "" {
			cfg.say("%s: measuring", v.Name)
			if of, err := speedOf(ctx, cfg, stores, v); err != nil {
				row.Error = "measure: " + err.Error()
			} else {
				row.DurablePerS, row.P99MS = of.durablePerS, of.p99MS
			}
		}
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	return report, nil
}

// sideBySide is how many variants are judged at once: most of it is waiting.
const sideBySide = 3

// judgeAll judges each variant as often as asked for. Those that are judged at
// the same time have a Redis and a database each.
func judgeAll(ctx context.Context, cfg Config, stores *servers.Stores, chosen []shops.Variant, rows []Row) error {
	turns, judging := make(chan int, len(chosen)), errgroup.Group{}
	for i := range chosen {
		turns <- i
	}
	close(turns)
	var talking sync.Mutex
	say := func(format string, args ...any) {
		talking.Lock()
		defer talking.Unlock()
		cfg.say(format, args...)
	}
	for range min(sideBySide, len(chosen)) {
		judging.Go(func() (err error) {
			own, err := servers.StartRedis(ctx, servers.RedisOptions{AppendFsync: "always"})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, own.Close()) }()
			for i := range turns {
				row := &rows[i]
				for round := range cfg.Rounds {
					say("%s: judging, round %d of %d", chosen[i].Name, round+1, cfg.Rounds)
					cfg := cfg
					cfg.Seed += int64(round)
					dsn, err := empty(ctx, own.URL, stores.MySQL)
					if err != nil {
						return err
					}
					verdict, err := Judge(ctx, cfg, chosen[i], own.URL, dsn)
					if err != nil {
						row.Error = "judge: " + err.Error()
						break
					}
					row.judged(verdict)
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				say("%s: %s", row.Name, row.said())
			}
			return nil
		})
	}
	return judging.Wait()
}

// speedOf measures one variant, on empty stores.
func speedOf(ctx context.Context, cfg Config, stores *servers.Stores, v shops.Variant) (speed, error) {
	dsn, err := empty(ctx, stores.RedisURL, stores.MySQL)
	if err != nil {
		return speed{}, err
	}
	return measure(ctx, cfg, v, stores.RedisURL, dsn)
}

// empty throws everything away that the stores have.
func empty(ctx context.Context, redisURL string, db *servers.MySQL) (dsn string, err error) {
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return "", err
	}
	client := redis.NewClient(o)
	if err := errors.Join(client.FlushAll(ctx).Err(), client.Close()); err != nil {
		return "", fmt.Errorf("empty Redis: %w", err)
	}
	return db.NewDatabase(ctx, fmt.Sprint("gallery_", databases.Add(1)))
}

// databases made so far: each has a name of its own.
var databases atomic.Int64
