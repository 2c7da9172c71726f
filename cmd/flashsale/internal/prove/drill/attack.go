package drill

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	_ "github.com/go-sql-driver/mysql" // driver for the drill's own queries
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers"
)

const (
	sku = "drill" // the sale under attack

	// lease is shorter than serve's default, because a drill lasts seconds.
	lease = 2 * time.Second
	// directAfter is the time without Redis after which nodes enter direct mode. Like lease,
	// it is short because a drill lasts seconds. It is longer than a restart of Redis in a
	// drill.
	directAfter = 1500 * time.Millisecond
	// clientTimeout allows the balancer to try another node.
	clientTimeout = 8 * time.Second
)

// An attack is one drill: a stage with a sale under attack, and the balancer that the
// buyers of the load test use.
type attack struct {
	*stage
	*notes
	cfg      Config
	duration time.Duration // duration of the attack
	random   *rand.Rand    // used only by the goroutine of the fault
	balancer *lab.Balancer
	operator *api.Client

	// Connections of the drill itself to the stores.
	redis *redis.Client
	mysql *sql.DB
}

// open starts the servers and the nodes.
func (f *fault) open(ctx context.Context, cfg Config) (a *attack, err error) {
	a = &attack{cfg: cfg, duration: cfg.Duration + f.longer, random: f.numbers(cfg.Seed)}
	a.notes = &notes{stop: func() {}, at: func() time.Duration { return a.balancer.Elapsed() }, say: func(format string, args ...any) {
		cfg.Progressf(f.name+": "+format, args...)
	}}
	if f.group {
		cfg.MySQL = servers.MySQLConfig{SearchPath: []string{cfg.MySQLFolder}, Group: true}
	}
	if a.stage, err = openStage(ctx, cfg.Config); err != nil {
		return nil, err
	}
	defer lab.CloseOnError(&err, a.Close)
	if a.mysql, err = sql.Open("mysql", a.Stores.SQL); err != nil {
		return nil, err
	}
	a.redis = lab.RedisClient(a.Stores.Redis.Addr())
	a.Cleanup(func() error { return errors.Join(a.mysql.Close(), a.redis.Close()) })
	if f.standby {
		err = errors.Join(a.standby(ctx), a.follows(ctx))
	}
	if err != nil {
		return nil, err
	}
	err = a.startNodes(ctx, lab.NodeConfig{Strategy: cfg.Strategy}, func(name string) []string {
		flags := append(lab.ShortTimeouts(cmp.Or(f.lease, lease), directAfter), "--trusted-proxies", "127.0.0.1") // each buyer of the attack has its own address
		if f.clocks {
			// Every clock is wrong, and each by another offset.
			off := a.between(time.Minute, 10*time.Minute).Round(time.Second)
			if a.random.IntN(2) == 0 {
				off = -off
			}
			flags = append(flags, "--clock-off="+off.String())
			a.done = append(a.done, fmt.Sprintf("%s's clock is off by %v", name, off))
		}
		return flags
	})
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, n := range a.Nodes {
		urls = append(urls, n.URL())
	}
	if a.balancer, err = lab.Balance(urls...); err != nil {
		return nil, err
	}
	a.Cleanup(a.balancer.Close)
	a.operator, err = a.Operator(a.balancer.URL())
	return a, err
}

// follows waits until MySQL's replica has caught up. From then on the primary waits for
// the replica before it confirms a commit, unless the drill is asynchronous.
func (a *attack) follows(ctx context.Context) error {
	if err := a.caughtUp(ctx); err != nil || a.cfg.Asynchronous {
		return err
	}
	return a.mysqls[a.primary].RequireReplica(ctx)
}

// rebuildPrimary makes the old primary the replica of the new one, even after ctx has
// ended.
func (a *attack) rebuildPrimary(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := a.rebuild(ctx); err != nil {
		return err
	}
	a.did("old primary started again, empty")
	err := a.follows(ctx)
	if err == nil {
		a.did("it has all as a replica")
	}
	return err
}

// run carries one drill out: it starts the servers, attacks the sale, injects the fault
// and judges.
func (f *fault) run(ctx context.Context, cfg Config, all *Report) (row Row, err error) {
	row = Row{Name: f.name, Done: []string{}, Violations: []string{}}
	if f.keeper && cfg.Strategy != variants.Lua {
		row.unjudged("needs a keeper, and strategy " + cfg.Strategy + " has none")
		cfg.Progressf("%s: %s", f.name, row.Violations[0])
		return row, nil
	}
	cfg.Progressf("%s: %s", f.name, f.happens)
	a, err := f.open(ctx, cfg)
	if err != nil {
		return row, fmt.Errorf("start the servers: %w", err)
	}
	var verdict *report.Report
	defer func() {
		if cfg.Keep && ctx.Err() == nil && (err != nil || row.exit != judge.ExitPass) {
			var text bytes.Buffer
			if verdict != nil {
				err = errors.Join(err, verdict.WriteText(&text))
			}
			var keepErr error
			row.Logs, keepErr = a.KeepLogs("drill-"+f.name, map[string][]byte{"verdict.txt": text.Bytes()})
			err = errors.Join(err, keepErr)
		}
		err = errors.Join(err, a.Close())
	}()
	all.Stores = a.Stores.Versions

	// A fault that is still waiting for something when the attack ends gives up.
	faulty, stop := context.WithCancel(ctx)
	defer stop()
	faulted := make(chan error, 1)
	go func() { faulted <- f.strike(faulty, a) }()
	verdict, err = loadtest.Run(ctx, a.load())
	stop()
	if fault := <-faulted; fault != nil && err == nil {
		err = fmt.Errorf("inject the fault: %w", fault)
	}
	row.Done = append(row.Done, a.done...)
	if verdict != nil {
		row.judge(verdict, a.duration)
		row.breaks(a.broken)
	}
	return row, err
}

// strike waits until the time of the fault, and injects it.
func (f *fault) strike(ctx context.Context, a *attack) error {
	if err := a.moment(ctx); err != nil {
		return err
	}
	p := draw(a.random, f)
	if f.aim != nil {
		if err := f.aim(ctx, a, &p); err != nil {
			return err
		}
	}
	in := &injector{stage: a.stage, notes: a.notes, ctx: ctx, state: &brokenState{}, skus: [skuCount]string{sku, sku, sku}, attack: a}
	err := f.do(in, p)
	if err == nil && p.after != nil {
		healing, cancel := in.healing()
		defer cancel()
		err = p.after(healing)
	}
	return err
}

// load configures the attack on the sale. Buyers order twice the units on sale. The
// sale is selling when the fault begins, and continues after it. Buyers compete for the
// last units even if the sale stood still for half of the time.
func (a *attack) load() loadtest.Config {
	c := loadtest.Defaults()
	c.Target, c.SKU, c.Name = a.balancer.URL(), sku, "Drill"
	c.Token = a.Token
	c.Rate, c.Duration, c.InFlight, c.Paced = a.cfg.Rate, a.duration, a.cfg.InFlight, true
	c.Buyers = int(float64(c.Rate) * c.Duration.Seconds())
	c.Stock = c.Buyers / 2
	c.Seed = a.cfg.Seed
	c.Timeout = clientTimeout
	c.Strategy, c.Stores = a.cfg.Strategy, a.Stores.Kind
	return c
}

// numbers returns the random numbers that determine the timing. Each drill has its own
// numbers, so its timing does not depend on other drills of the run.
func (f *fault) numbers(seed int64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.name))
	return lab.NewRand(seed, h.Sum64())
}

// moment waits for the start of the attack and then for the time of the fault. At that
// time many orders are in flight and many units are left.
func (a *attack) moment(ctx context.Context) error {
	d := a.between(a.cfg.Duration*3/20, a.cfg.Duration*6/20)
	select {
	case <-a.balancer.Began:
		return client.Wait(ctx, d)
	case <-ctx.Done():
		return fmt.Errorf("wait for the moment of the fault: %w", ctx.Err())
	}
}

func (a *attack) between(least, most time.Duration) time.Duration {
	return lab.RandomDuration(a.random, least, most)
}

// pause waits for a drawn duration. It ends early with ctx and returns no error, because
// the fault must be ended in any case.
func (a *attack) pause(ctx context.Context, least, most time.Duration) {
	sleep(ctx, a.between(least, most))
}

// until polls until ok returns true.
func (a *attack) until(ctx context.Context, what string, ok func(ctx context.Context) bool) error {
	return lab.Until(ctx, 20*time.Millisecond, what, func(ctx context.Context) (bool, error) { return ok(ctx), nil })
}

// tries calls try until it returns true or an error, at most limit times.
func tries(limit int, failed string, try func() (bool, error)) error {
	for range limit {
		if ok, err := try(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s, in %d attempts", failed, limit)
}
