// Package gallery compares ways to sell limited stock: the wrong ones that are
// known, the right ones that people think of, and the way of this project. All
// get the same routes, the same attack and the same faults, and the load test
// judges them from outside. Then the speed of each is measured.
//
//	variants/    the ways to sell, a file each
//	front.go     the routes of the contract, for any shop
//	variant.go   a shop, or the real service, as a process that can die
//	stage.go     links to the stores and to the buyers
//	harm.go      what is done to all of them
//	judge.go     attack and verdict
//	speed.go     durable orders per second
//	report.go    the result; text.go shows it
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

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

// Config of a run.
type Config struct {
	Names    []string      // of the variants, see Names; none means all
	Rounds   int           // how often each variant is judged; the verdict must be the same each time
	Rate     int           // orders per second of the attacks
	Seed     int64         // of the attack and of the moments of harm; each round uses the next seed
	Speed    time.Duration // how long the speed is measured; 0: not at all
	Callers  int           // who order at the same time meanwhile
	Progress io.Writer     // may be nil

	acts   []string      // those to play; none means all. Tests have less time
	search time.Duration // as Config.Search of a load test
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var f lab.Faults
	f.Unless(c.Rounds >= 1 && c.Rounds <= 1000, "rounds: %d, want 1 to 1000", c.Rounds)
	f.Unless(c.Rate >= 50 && c.Rate <= 5000, "rate: %d, want 50 to 5000", c.Rate)
	f.Unless(c.Speed >= 0 && c.Speed <= time.Minute, "speed: %v, want 0 to 1m", c.Speed)
	f.Unless(c.Callers >= 1 && c.Callers <= 1000, "callers: %d, want 1 to 1000", c.Callers)
	f.Known("variant", c.Names, Names())
	return errors.Join(f...)
}

func (c Config) say(format string, args ...any) { lab.Say(c.Progress, format, args...) }

// List writes the variants that can be compared.
func List(w io.Writer) error {
	var out strings.Builder
	for _, v := range all() {
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

// Run compares variants on private real servers. It judges them, some side by
// side, and then measures each alone. Everything that it started has ended when
// it returns. If a variant cannot be tested, its row has the error. Run returns
// errors that concern all variants: servers that are not installed, or a context
// that ended. The report has what was done by then.
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
	chosen := slices.DeleteFunc(all(), func(v variants.Variant) bool {
		return len(cfg.Names) > 0 && !slices.Contains(cfg.Names, v.Name)
	})
	for _, v := range chosen {
		report.Rows = append(report.Rows, newRow(v))
	}
	if err := judgeAll(ctx, cfg, stores, chosen, report.Rows); err != nil {
		report.Rows = slices.DeleteFunc(report.Rows, func(r Row) bool { return r.Rounds == 0 })
		return report, err
	}
	for i, v := range chosen {
		row := &report.Rows[i]
		if cfg.Speed > 0 && row.Error == "" {
			cfg.say("%s: measuring", v.Name)
			dsn, err := empty(ctx, stores.RedisURL, stores.MySQL)
			if err == nil {
				err = measure(ctx, cfg, v, stores.RedisURL, dsn, row)
			}
			if err != nil {
				row.Error = "measure: " + err.Error()
			}
		}
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	return report, nil
}

// sideBySide is how many variants are judged at once: judging is mostly waiting.
const sideBySide = 3

// judgeAll judges each variant cfg.Rounds times, some variants side by side.
func judgeAll(ctx context.Context, cfg Config, stores *servers.Stores, chosen []variants.Variant, rows []Row) error {
	var judging errgroup.Group
	judging.SetLimit(sideBySide)
	for i, v := range chosen {
		judging.Go(func() error {
			err := judgeRounds(ctx, cfg, stores, v, &rows[i])
			cfg.say("%s: %s", v.Name, rows[i].said())
			return err
		})
	}
	return judging.Wait()
}

// judgeRounds judges one variant on a Redis and databases of its own.
func judgeRounds(ctx context.Context, cfg Config, stores *servers.Stores, v variants.Variant, row *Row) (err error) {
	own, err := servers.StartRedis(ctx, servers.RedisOptions{AppendFsync: "always"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	for round := range cfg.Rounds {
		cfg.say("%s: judging, round %d of %d", v.Name, round+1, cfg.Rounds)
		dsn, err := empty(ctx, own.URL, stores.MySQL)
		if err != nil {
			return err
		}
		verdicts, err := Judge(ctx, cfg, v, own.URL, dsn)
		if err != nil {
			row.Error = "judge: " + err.Error()
			break
		}
		row.judged(verdicts)
		cfg.Seed++
	}
	return ctx.Err()
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
