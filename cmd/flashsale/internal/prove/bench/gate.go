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

// gateCallers reserve at the same time.
const gateCallers = 256

func runGate(ctx context.Context, l *bench, rows []Row) error {
	// As many connections as calls may be in flight: neither side waits for one.
	db := l.openRedis(gateCallers)
	reserving := func(db redis.UniversalClient, cfg inventory.Config) measure {
		return func(ctx context.Context) (sample, error) { return l.reserve(ctx, db, cfg) }
	}
	alone := struct{ redis.UniversalClient }{db} // a gate shares pipelines on a *redis.Client only
	theirs := []measure{reserving(alone, inventory.Config{Batch: 1, InFlight: gateCallers})}
	if rows[1].Needs = missing(redisBenchmark); rows[1].Needs == "" {
		theirs = append(theirs, func(ctx context.Context) (sample, error) { return l.redisBenchmark(ctx, db) })
	}
	return l.contest(ctx, rows[:len(theirs)], reserving(db, inventory.Config{}), theirs...)
}

// openGate empties db and opens a gate there as a keeper would.
func openGate(ctx context.Context, db redis.UniversalClient, cfg inventory.Config) (g inventory.Keeping, sku string, err error) {
	cfg.QueueLimit = plenty // nobody drains it here
	cfg.Timeout = 10 * time.Second
	g, sku = inventory.Keeping{Gate: inventory.New(db, cfg)}, "bench"
	if err := db.FlushDB(ctx).Err(); err != nil {
		return g, "", fmt.Errorf("empty a database of Redis: %w", err)
	}
	now := time.Now().Truncate(time.Millisecond)
	opened, err := g.Install(ctx, &inventory.Draft{SKU: sku, Fence: 1}, 0, inventory.View{Summary: inventory.Summary{
		Epoch: 1, Terms: inventory.Terms{Total: plenty, PerBuyer: 1, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)},
		Available: plenty,
	}})
	if err == nil && !opened {
		err = errors.New("not opened")
	}
	if err != nil {
		return g, "", fmt.Errorf("install a gate: %w", err)
	}
	return g, sku, nil
}

// request is a reservation as the program makes it; n is in place of what is
// random in an order's id, and as long.
func request(sku, n string) inventory.Request {
	return inventory.Request{
		OrderID: "00000000-0000-7000-8000-" + n, SKU: sku, Buyer: "buyer-" + n, Quantity: 1,
		Key: "key-" + n, Fingerprint: "0123456789abcdef0123456789abcdef", Node: "00000000-0000-4000-8000-000000000000",
	}
}

// reserve measures a gate under callers who each reserve one unit at a time.
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

// A recorder keeps the last call that a gate made.
type recorder struct {
	redis.UniversalClient
	args []any
}

func (r *recorder) Process(ctx context.Context, cmd redis.Cmder) error {
	r.args = cmd.Args()
	return r.UniversalClient.Process(ctx, cmd)
}

// callsInRun is how many calls redis-benchmark makes before it is started again: one call
// is repeated, and its deadline is a second ahead.
const callsInRun = 8000

// redisBenchmark measures the same call, of one reservation each, sent by
// Redis's own benchmark, sixteen in a pipeline. It makes the numbers up:
// __rand_int__ becomes twelve digits.
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
	// After EVALSHA, its hash, five keys and their number.
	const deadline = 8
	call := len(args)
	for _, arg := range r.args {
		// go-redis takes pointers, too, and sends what they point to.
		args = append(args, fmt.Sprint(reflect.Indirect(reflect.ValueOf(arg))))
	}
	stop := meter{0, l.Stores.Redis.Pid(), 0}.start()
	start := time.Now()
	for run := range runs {
		args[call+deadline] = fmt.Sprint(time.Now().Add(time.Second).UnixMilli())
		// Two runs of the same second make up the same numbers.
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
	// Random numbers may repeat, and then nothing is taken: hardly ever.
	if taken := plenty - view.Available; err == nil && taken < int64(calls)*999/1000 {
		err = fmt.Errorf("%w: redis-benchmark made %d calls, %d units were taken", errCounts, calls, taken)
	}
	return s, err
}
