package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of sql.Open
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/loadtest/servers"
)

// A tool is a program that some benchmarks need, and how to get it.
type tool struct{ program, install string }

var (
	wrkTool            = tool{"wrk", "apt-get install wrk"}
	redisBenchmarkTool = tool{"redis-benchmark", "apt-get install redis-tools"}
)

// A lab is what the benchmarks of one run share: the servers, the buyers, and
// a directory for what wrk reads.
type lab struct {
	cfg      Config
	dir      string
	redis    *servers.Redis
	mysql    *servers.MySQL
	verifier *auth.Verifier
	secret   string
	crowd    *crowd
	freeDBs  []int // of Redis, which has 16
	serial   int   // makes names that were not used before
}

// openLab starts the servers, as durable as the compose stack's.
func openLab(ctx context.Context, cfg Config) (_ *lab, err error) {
	l := &lab{cfg: cfg, secret: rand.Text() + rand.Text(), freeDBs: []int{1, 2, 3, 4, 5, 6, 7, 8}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.dir, err = os.MkdirTemp("", "flashsale-bench-"); err != nil {
		return nil, fmt.Errorf("directory for wrk: %w", err)
	}
	if l.verifier, err = auth.New([]byte(l.secret), nil); err != nil {
		return nil, err
	}
	l.say("starting private servers, signing the tokens of %d buyers", crowdSize)
	if l.crowd, err = newCrowd(l.verifier, l.dir); err != nil {
		return nil, err
	}
	l.redis, err = servers.StartRedis(ctx, servers.RedisOptions{
		AppendFsync: "always",
		// Its log is rewritten between the benchmarks, not in the middle of one.
		ExtraArgs: []string{"--auto-aof-rewrite-percentage", "0"},
	})
	if err != nil {
		return nil, err
	}
	if l.mysql, err = servers.StartMySQL(ctx, servers.MySQLOptions{}); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *lab) close() error {
	var errs []error
	if l.mysql != nil {
		errs = append(errs, l.mysql.Close())
	}
	if l.redis != nil {
		errs = append(errs, l.redis.Close())
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

func (l *lab) say(format string, args ...any) {
	if l.cfg.Progress != nil {
		_, _ = fmt.Fprintf(l.cfg.Progress, format+"\n", args...)
	}
}

// next is a name that was not used before in this run.
func (l *lab) next(prefix string) string {
	l.serial++
	return fmt.Sprintf("%s%d", prefix, l.serial)
}

// missing says which of the tools are not installed, and how to get them.
func (l *lab) missing(tools []tool) string {
	var lacking []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			lacking = append(lacking, t.program+" ("+t.install+")")
		}
	}
	return strings.Join(lacking, ", ")
}

// A redisDB is one of the numbered databases, with a client of this process.
type redisDB struct {
	*redis.Client
	number int
	url    string
}

// openRedis hands out an empty database. connections bounds those of the client.
func (l *lab) openRedis(connections int) (*redisDB, error) {
	if len(l.freeDBs) == 0 {
		return nil, errors.New("no database of Redis is free")
	}
	number := l.freeDBs[0]
	l.freeDBs = l.freeDBs[1:]
	client := redis.NewClient(&redis.Options{
		Addr: l.redis.Addr(), DB: number, PoolSize: connections, ContextTimeoutEnabled: true, ClientName: ownName(),
	})
	return &redisDB{Client: client, number: number, url: fmt.Sprintf("redis://%s/%d", l.redis.Addr(), number)}, nil
}

// closeRedis empties a database and makes Redis's log small again, so that the
// next benchmark starts as the first one did.
func (l *lab) closeRedis(db *redisDB) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := db.FlushDB(ctx).Err()
	if err == nil {
		err = db.BgRewriteAOF(ctx).Err()
	}
	err = errors.Join(err, poll(ctx, 20*time.Millisecond, func() (bool, error) {
		info, err := db.Info(ctx, "persistence").Result()
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0"), err
	}))
	l.freeDBs = append(l.freeDBs, db.number)
	return errors.Join(err, db.Close())
}

// infoNumber finds a number in an answer to INFO; what isn't there is 0.
func infoNumber(info, name string) int64 {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// openMySQL makes an empty database. The DSN is without parameters.
func (l *lab) openMySQL(ctx context.Context) (db *sql.DB, dsn string, closeDB func() error, err error) {
	name := l.next("bench_")
	if dsn, err = l.mysql.NewDatabase(ctx, name); err != nil {
		return nil, "", nil, err
	}
	if db, err = sql.Open("mysql", dsn+"?interpolateParams=true"); err != nil {
		return nil, "", nil, err
	}
	return db, dsn, func() error {
		return errors.Join(db.Close(), l.mysql.DropDatabase(context.Background(), name))
	}, nil
}

// poll asks until the answer is yes.
func poll(ctx context.Context, every time.Duration, yes func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := yes(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (l *lab) machine(ctx context.Context) Machine {
	m := Machine{
		Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Redis: l.redis.Version + " (appendfsync always)", MySQL: l.mysql.Version,
	}
	_, m.CPUTimes = cpuTime(os.Getpid())
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	// wrk prints its version with an exit status of 1.
	if out, _ := exec.CommandContext(ctx, "wrk", "--version").CombinedOutput(); len(out) > 0 {
		if words := strings.Fields(string(out)); slices.Contains(words, "wrk") && len(words) > 1 {
			m.Wrk = "wrk " + strings.TrimPrefix(words[1], "debian/")
		}
	}
	return m
}
