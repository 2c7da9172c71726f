package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
)

var gate = benchmark{
	name:  "gate",
	about: "reservations of one SKU by 256 callers in Go, against one script call for each",
	rows: []Row{
		{Item: "4a", Name: "gate / one EVALSHA per call", Unit: "reserve/s", Target: atLeast(3)},
		{Item: "4b", Name: "gate / redis-benchmark -P 16", Unit: "reserve/s", Target: atLeast(2)},
	},
	run: runGate,
}

// gateCallers is the number of concurrent callers.
const gateCallers = 256

func runGate(ctx context.Context, l *bench, rows []Row) error {
	// One connection per caller: no side waits for connections.
	db := l.openRedis(gateCallers)
	reserving := func(db redis.UniversalClient, cfg inventory.Config) measure {
		return func(ctx context.Context) (sample, error) { return l.reserve(ctx, db, cfg) }
	}
	alone := struct{ redis.UniversalClient }{db} // a gate shares pipelines only on a *redis.Client
	theirs := []measure{reserving(alone, inventory.Config{MaxBatch: 1, MaxInFlight: gateCallers})}
	if rows[1].Needs = missing(redisBenchmark); rows[1].Needs == "" {
		theirs = append(theirs, func(ctx context.Context) (sample, error) { return l.redisBenchmark(ctx, db) })
	}
	return l.contest(ctx, rows[:len(theirs)], reserving(db, inventory.Config{}), theirs...)
}

// openGate empties db and opens a gate as a keeper does.
func openGate(ctx context.Context, db redis.UniversalClient, cfg inventory.Config) (g inventory.KeeperGate, sku string, err error) {
	cfg.QueueLimit = plenty // no keeper empties the queue
	cfg.Timeout = 10 * time.Second
	g, sku = inventory.KeeperGate{Gate: inventory.New(db, cfg)}, "bench"
	if err := db.FlushDB(ctx).Err(); err != nil {
		return g, "", fmt.Errorf("empty the Redis database of the benchmark: %w", err)
	}
	now := time.Now().Truncate(time.Millisecond)
	opened, err := g.Install(ctx, &inventory.Draft{SKU: sku, Fence: 1}, 0, inventory.View{Summary: inventory.Summary{
		Epoch: 1, Terms: inventory.Terms{Total: plenty, UnitsPerBuyer: 1, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)},
		Available: plenty,
	}})
	if err == nil && !opened {
		err = errors.New("the gate was not opened, because another gate exists or its draft is incomplete")
	}
	if err != nil {
		return g, "", fmt.Errorf("install a gate: %w", err)
	}
	return g, sku, nil
}

// request returns a reservation as the service sends it. n stands for the random part
// of an order's id and has its length.
func request(sku, n string) inventory.Request {
	return inventory.Request{
		OrderID: "00000000-0000-7000-8000-" + n, SKU: sku, Buyer: "buyer-" + n, Quantity: 1,
		Key: "key-" + n, Fingerprint: "0123456789abcdef0123456789abcdef", Node: "00000000-0000-4000-8000-000000000000",
	}
}

// reserve measures a gate under callers who reserve one unit at a time.
func (l *bench) reserve(ctx context.Context, db redis.UniversalClient, cfg inventory.Config) (sample, error) {
	g, sku, err := openGate(ctx, db, cfg)
	if err != nil {
		return sample{}, err
	}
	inRedis := meter{os.Getpid(), l.Stores.Redis.Pid(), 0}
	reserved, s, err := l.atOnce(ctx, gateCallers, 1, inRedis, func(ctx context.Context, n int) error {
		_, err := g.Reserve(ctx, request(sku, fmt.Sprintf("%012d", n)))
		return err
	})
	if err != nil {
		return sample{}, err
	}
	view, err := g.Inspect(ctx, sku)
	if taken := plenty - view.Available; err == nil && (taken != int64(reserved) || view.Holds != taken) {
		err = fmt.Errorf("%w: %d reservations, %d units taken, %d holds", errCounts, reserved, taken, view.Holds)
	}
	return s, err
}

// A recorder remembers the last command that a gate sent.
type recorder struct {
	redis.UniversalClient
	args []any
}

func (r *recorder) Process(ctx context.Context, cmd redis.Cmder) error {
	r.args = cmd.Args()
	return r.UniversalClient.Process(ctx, cmd)
}

// callsInRun is the number of calls for which redis-benchmark runs. It repeats one
// call, whose deadline is one second ahead, so it must restart with a new deadline.
const callsInRun = 8000

// redisBenchmark measures the same call with Redis's own benchmark, with pipelines of
// sixteen calls of one reservation each. redis-benchmark replaces __rand_int__ by
// twelve random digits.
func (l *bench) redisBenchmark(ctx context.Context, db *redis.Client) (sample, error) {
	r := recorder{UniversalClient: db}
	g, sku, err := openGate(ctx, &r, inventory.Config{})
	if err != nil {
		return sample{}, err
	}
	if _, err := g.Reserve(ctx, request(sku, "__rand_int__")); err != nil {
		return sample{}, err
	}
	host, port, _ := strings.Cut(l.Stores.Redis.Addr(), ":")
	runs := 5 * l.cfg.Seconds
	calls := runs * callsInRun
	args := []string{"-h", host, "-p", port, "--dbnum", strconv.Itoa(db.Options().DB), "-q",
		"-n", strconv.Itoa(callsInRun), "-P", "16", "-r", "1000000000"}
	// deadline is the index of the script's deadline in r.args. EVALSHA, the script's hash, the
	// number of keys and the five keys precede it.
	const deadline = 8
	call := len(args)
	for _, arg := range r.args {
		// go-redis dereferences pointer arguments.
		args = append(args, fmt.Sprint(reflect.Indirect(reflect.ValueOf(arg))))
	}
	stop := meter{0, l.Stores.Redis.Pid(), 0}.start()
	start := time.Now()
	for run := range runs {
		args[call+deadline] = fmt.Sprint(time.Now().Add(time.Second).UnixMilli())
		// Two runs in one second generate the same random numbers.
		names := strings.NewReplacer("00000000-0000-7000", fmt.Sprintf("%08d-0000-7000", run), "buyer-", fmt.Sprintf("buy%02d-", run%100))
		runArgs := slices.Clone(args)
		for i := range runArgs {
			runArgs[i] = names.Replace(runArgs[i])
		}
		out, err := exec.CommandContext(ctx, redisBenchmark, runArgs...).CombinedOutput()
		if err != nil {
			return sample{}, fmt.Errorf("redis-benchmark: %w: %s", errors.Join(err, ctx.Err()), out)
		}
	}
	s := sample{value: float64(calls) / time.Since(start).Seconds(), cpu: stop(float64(calls))}
	view, err := g.Inspect(ctx, sku)
	// Random numbers may repeat, and a repeated call takes no unit. That is rare.
	if taken := plenty - view.Available; err == nil && taken < int64(calls)*999/1000 {
		err = fmt.Errorf("%w: redis-benchmark made %d calls, but only %d units were taken", errCounts, calls, taken)
	}
	return s, err
}
