package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
)

var gate = benchmark{
	name:  "gate",
	about: "reservations of one SKU by 256 callers in Go, against one script call for each",
	rows: []Row{
		{Item: "4a", Name: "gate / one EVALSHA per call", Unit: "reserve/s", Target: atLeast(2.5)},
		{Item: "4b", Name: "gate / redis-benchmark -P 16", Unit: "reserve/s", Target: atLeast(1.5)},
	},
	run: runGate,
}

// gateCallers reserve at the same time.
const gateCallers = 256

func runGate(ctx context.Context, l *lab, rows []Row) (err error) {
	// As many connections as calls may be in flight: neither side waits for one.
	db, err := l.openRedis(gateCallers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.closeRedis(db)) }()
	batched := func(ctx context.Context) (sample, error) { return l.reserve(ctx, db, inventory.Config{}) }
	single := func(ctx context.Context) (sample, error) {
		return l.reserve(ctx, db, inventory.Config{Batch: 1, InFlight: gateCallers})
	}
	bare := func(ctx context.Context) (sample, error) { return l.redisBenchmark(ctx, db) }
	if err := l.warm(ctx, batched, single); err != nil {
		return err
	}
	sides := []measure{batched, single}
	if rows[1].Needs = l.missing([]tool{redisBenchmarkTool}); rows[1].Needs == "" {
		sides = append(sides, bare)
	}
	samples, err := l.alternate(ctx, rows[0].Unit, sides...)
	if err != nil {
		return err
	}
	for i, theirs := range samples[1:] {
		rows[i].fill(samples[0], theirs)
	}
	return nil
}

// openGate empties db and opens a gate there as a keeper would.
func openGate(ctx context.Context, db *redisDB, cfg inventory.Config) (g *inventory.Gate, sku string, err error) {
	cfg.QueueBound = plenty // nobody drains it here
	cfg.Timeout = 10 * time.Second
	g, sku = inventory.New(db, cfg), "bench"
	if err := db.FlushDB(ctx).Err(); err != nil {
		return nil, "", fmt.Errorf("empty a database of Redis: %w", err)
	}
	now := time.Now().Truncate(time.Millisecond)
	opened, err := g.Install(ctx, &inventory.Draft{SKU: sku, Fence: 1}, 1, inventory.Stock{
		Terms:     inventory.Terms{Total: plenty, PerBuyer: 1, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)},
		Available: plenty,
	})
	if err == nil && !opened {
		err = errors.New("not opened")
	}
	if err != nil {
		return nil, "", fmt.Errorf("install a gate: %w", err)
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
func (l *lab) reserve(ctx context.Context, db *redisDB, cfg inventory.Config) (sample, error) {
	g, sku, err := openGate(ctx, db, cfg)
	if err != nil {
		return sample{}, err
	}
	var count atomic.Int64
	var callers errgroup.Group
	stop := meter{app: os.Getpid(), redis: l.redis.Pid()}.start()
	start := time.Now()
	end := start.Add(time.Duration(l.cfg.Seconds) * time.Second)
	for range gateCallers {
		callers.Go(func() error {
			for time.Now().Before(end) {
				n := fmt.Sprintf("%012d", count.Add(1))
				if _, err := g.Reserve(ctx, request(sku, n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := callers.Wait(); err != nil {
		return sample{}, err
	}
	took, cpu := time.Since(start), stop(float64(count.Load()))
	view, err := g.Look(ctx, sku)
	if err != nil {
		return sample{}, err
	}
	if taken := plenty - view.Available; taken != count.Load() || view.Holds != taken {
		return sample{}, fmt.Errorf("%w: %d reservations, %d units taken, %d holds", errCounts, count.Load(), taken, view.Holds)
	}
	return sample{value: float64(count.Load()) / took.Seconds(), cpu: cpu}, nil
}

// A recorder keeps the last script call by its hash that a client made.
type recorder struct{ args []any }

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			r.args = cmd.Args()
		}
		return next(ctx, cmd)
	}
}

// redisBenchmark measures the same call, of one reservation each, sent by
// Redis's own benchmark, sixteen in a pipeline. It makes the numbers up:
// __rand_int__ becomes twelve digits.
func (l *lab) redisBenchmark(ctx context.Context, db *redisDB) (sample, error) {
	recording := redis.NewClient(db.Options())
	defer func() { _ = recording.Close() }()
	var r recorder
	recording.AddHook(&r)
	g, sku, err := openGate(ctx, &redisDB{Client: recording}, inventory.Config{})
	if err != nil {
		return sample{}, err
	}
	if _, err := g.Reserve(ctx, request(sku, "__rand_int__")); err != nil {
		return sample{}, err
	}
	host, port, _ := strings.Cut(l.redis.Addr(), ":")
	calls := 40_000 * l.cfg.Seconds
	args := []string{"-h", host, "-p", port, "--dbnum", strconv.Itoa(db.number), "--csv",
		"-n", strconv.Itoa(calls), "-P", "16", "-r", "1000000000"}
	for _, arg := range r.args {
		// go-redis takes pointers, too, and sends what they point to.
		args = append(args, fmt.Sprint(reflect.Indirect(reflect.ValueOf(arg))))
	}
	stop := meter{redis: l.redis.Pid()}.start()
	out, err := exec.CommandContext(ctx, redisBenchmarkTool.program, args...).Output()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark: %w: %s", errors.Join(err, ctx.Err()), out)
	}
	cpu := stop(float64(calls))
	perSecond, err := parseRedisBenchmark(out)
	if err != nil {
		return sample{}, err
	}
	view, err := g.Look(ctx, sku)
	if err != nil {
		return sample{}, err
	}
	// Random numbers may repeat, and then nothing is taken: hardly ever.
	if taken := plenty - view.Available; taken < int64(calls)*999/1000 {
		return sample{}, fmt.Errorf("%w: redis-benchmark made %d calls, %d units were taken", errCounts, calls, taken)
	}
	return sample{value: perSecond, cpu: cpu}, nil
}

// parseRedisBenchmark reads the calls per second from the output of --csv:
// a header, then the command, the rate and more.
func parseRedisBenchmark(out []byte) (float64, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.FieldsPerRecord = -1
	lines, err := r.ReadAll()
	if err != nil || len(lines) == 0 || len(lines[len(lines)-1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark: no rate in its output: %q", out)
	}
	perSecond, err := strconv.ParseFloat(lines[len(lines)-1][1], 64)
	if err != nil || perSecond <= 0 {
		return 0, fmt.Errorf("redis-benchmark: no rate in its output: %q", out)
	}
	return perSecond, nil
}
