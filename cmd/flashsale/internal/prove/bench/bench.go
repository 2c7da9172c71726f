package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// Config configures a run.
type Config struct {
	lab.Config
	Names       []string // benchmarks to run, see List; none means all
	Rounds      int      // measurements of each side; the report shows the median
	Seconds     int      // duration of one measurement
	Connections int      // connections of wrk, each with one request at a time
}

// A benchmark yields one or several rows of the report.
type benchmark struct {
	name  string
	about string
	needs string // a program that may not be installed; usually empty
	rows  []Row  // run fills in the figures
	run   func(ctx context.Context, l *bench, rows []Row) error
}

// Programs that some benchmarks need.
const (
	wrkProgram     = "wrk"
	redisBenchmark = "redis-benchmark"
)

var install = map[string]string{wrkProgram: "apt-get install wrk", redisBenchmark: "apt-get install redis-tools"}

// A bench holds what the benchmarks of one run share: a lab, the buyers, and a
// directory of files for wrk.
type bench struct {
	*lab.Lab
	cfg       Config
	dir       string
	crowd     *crowd
	databases int            // Redis databases used so far
	serial    atomic.Int64   // makes names unique
	orders    atomic.Int64   // order numbers used so far
	cleanups  []func() error // cleanups of the current benchmark
}

func openBench(ctx context.Context, cfg Config) (_ *bench, err error) {
	l := &bench{cfg: cfg}
	cfg.Progressf("starting private servers, signing the tokens of %d buyers", crowdSize)
	// Automatic rewrites of Redis's log could fall into a measurement. closeRedis rewrites it.
	if l.Lab, err = lab.Open(ctx, cfg.Config, "--auto-aof-rewrite-percentage", "0", "--databases", "64"); err != nil {
		return nil, err
	}
	defer lab.CloseOnError(&err, l.close)
	if l.dir, err = os.MkdirTemp("", "flashsale-bench-"); err != nil {
		return nil, fmt.Errorf("create a directory for wrk: %w", err)
	}
	if err = os.WriteFile(l.script(), wrkLua, 0o600); err != nil {
		return l, fmt.Errorf("write the script of wrk: %w", err)
	}
	l.crowd, err = newCrowd(l.Token, l.dir)
	return l, err
}

func (l *bench) close() error { return errors.Join(l.Lab.Close(), os.RemoveAll(l.dir)) }

// cleanup registers a function to call when the benchmark ends, last first.
func (l *bench) cleanup(do func() error) { l.cleanups = append(l.cleanups, do) }

// do runs one benchmark, and then its cleanups. An error includes the end of each
// node's log.
func (l *bench) do(ctx context.Context, b benchmark, rows []Row) error {
	had := len(l.Nodes)
	err := b.run(ctx, l, rows)
	for _, n := range l.Nodes[had:] {
		if tail := n.LogTail(); err != nil && tail != "" {
			err = fmt.Errorf("%w; the log of %s ends:\n%s", err, n.Name, tail)
		}
	}
	for _, do := range slices.Backward(l.cleanups) {
		err = errors.Join(err, do())
	}
	l.cleanups = nil
	return err
}

// next returns a name that is unique in this run.
func (l *bench) next(prefix string) string {
	return fmt.Sprintf("%s%d", prefix, l.serial.Add(1))
}

// missing returns the name of a program that is not installed, with the command to
// install it. It returns "" if the program is installed.
func missing(program string) string {
	if program == "" {
		return ""
	}
	if _, err := exec.LookPath(program); err == nil {
		return ""
	}
	return program + " (" + install[program] + ")"
}

// openRedis returns a client of an empty database, with at most the given number of connections.
func (l *bench) openRedis(connections int) *redis.Client {
	l.databases++
	db := redis.NewClient(&redis.Options{
		Addr: l.Stores.Redis.Addr(), DB: l.databases, PoolSize: connections, ContextTimeoutEnabled: true,
	})
	l.cleanup(func() error { return closeRedis(db) })
	return db
}

// closeRedis empties a database and rewrites Redis's log, so that every benchmark
// starts with a short log.
func closeRedis(db *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := errors.Join(db.FlushDB(ctx).Err(), db.BgRewriteAOF(ctx).Err())
	return errors.Join(err, lab.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		info, err := db.Info(ctx, "persistence").Result()
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0"), err
	}), db.Close())
}

// openMySQL creates an empty database. The DSN has no parameters.
func (l *bench) openMySQL(ctx context.Context) (db *sql.DB, dsn string, err error) {
	name := l.next("bench_")
	if dsn, err = l.Stores.MySQL.NewDatabase(ctx, name); err != nil {
		return nil, "", err
	}
	if db, err = sql.Open("mysql", dsn+"?interpolateParams=true"); err != nil {
		return nil, "", err
	}
	l.cleanup(func() error {
		return errors.Join(db.Close(), l.Stores.MySQL.DropDatabase(context.Background(), name))
	})
	return db, dsn, nil
}

func (l *bench) machine(ctx context.Context) Machine {
	m := Machine{
		Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Redis: l.Stores.Redis.Version + " (appendfsync always)", MySQL: l.Stores.MySQL.Version,
	}
	m.CPUTimes = meter{os.Getpid()}.read() != nil
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = found(`(?m)^model name\s*: (.+)$`, info)
	}
	// wrk exits with status 1 after printing its version.
	out, _ := exec.CommandContext(ctx, wrkProgram, "--version").CombinedOutput()
	if version := found(`^wrk (?:debian/)?(\S+)`, out); version != "" {
		m.Wrk = "wrk " + version
	}
	return m
}

// found returns the text of the pattern's group, or "".
func found(pattern string, text []byte) string {
	if groups := regexp.MustCompile(pattern).FindSubmatch(text); groups != nil {
		return string(groups[1])
	}
	return ""
}
