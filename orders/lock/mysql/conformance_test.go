package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/locktest"
)

func TestMain(m *testing.M) {
	_ = driver.SetLogger(log.New(io.Discard, "", 0)) // the tests break connections on purpose
	servertest.Main(m)
}

func open(t testing.TB, dsn, addr string) *sql.DB {
	cfg, err := driver.ParseDSN(dsn)
	check.Must(t, err)
	if addr != "" {
		cfg.Addr = addr
	}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	check.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestConformance is not parallel, because goleak would report goroutines of other tests.
func TestConformance(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("real", func(t *testing.T) {
		dsn := servertest.OpenSQL(t, servers.KindReal)
		cfg, err := driver.ParseDSN(dsn)
		check.Must(t, err)
		direct := open(t, dsn, "")
		check.Must(t, check.Err(direct.Exec(FenceTable)))
		waiters := func(t testing.TB, key string) (n int) { // counts queries that wait on the server
			check.Must(t, direct.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE ?",
				fmt.Sprintf("SELECT GET_LOCK('%s'%%", name(key))).Scan(&n))
			return n
		}
		locktest.Run(t, locktest.Store{
			Servers: []string{cfg.Addr},
			New: func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
				return New(open(t, dsn, servers[0]), cfg)
			},
			Fence: func(t testing.TB, _ lease.Locker) fence.Issuer { return NewFence(direct) },
			Steal: func(t testing.TB, key string) {
				var id int64
				check.Must(t, direct.QueryRow("SELECT IS_USED_LOCK(?)", name(key)).Scan(&id))
				check.Must(t, check.Err(direct.Exec(fmt.Sprintf("KILL CONNECTION %d", id))))
			},
			Waiters:  waiters,
			Acquires: contains("GET_LOCK"), Renews: contains("IS_USED_LOCK"), Releases: contains("RELEASE_LOCK"),
			Lease:            3 * time.Second,
			InOrder:          true,
			TiedToConnection: true,
		})
	})
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("flashsale/loadtest/servers.startChild.func1"),
		goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener")); err != nil {
		t.Errorf("goroutines after the test: got leaks, want none: %v", err)
	}
}

func contains(marker string) func([]byte) bool {
	return func(chunk []byte) bool { return bytes.Contains(chunk, []byte(marker)) }
}

// Different keys have different names, although the server limits names to 64 characters and
// ignores their case.
func TestNamesAreDistinct(t *testing.T) {
	long := strings.Repeat("x", 70)
	seen := map[string]string{}
	for _, key := range []string{"a", "A", long + "1", long + "2"} {
		n := name(key)
		if other, ok := seen[strings.ToLower(n)]; ok || len(n) > 64 {
			t.Errorf("lock names of the keys %q and %q: got %q for both or one above 64 characters, want two short names", key, other, n)
		}
		seen[strings.ToLower(n)] = key
	}
}

// Check rejects the token of an earlier holder.
func TestFenceRejectsEarlierToken(t *testing.T) {
	dsn := servertest.OpenSQL(t, servers.KindReal)
	db, ctx := open(t, dsn, ""), t.Context()
	check.Must(t, check.Err(db.ExecContext(ctx, FenceTable)))
	issuer, locks := NewFence(db), New(db, lease.Config{Lease: time.Minute, Timeout: 20 * time.Second})
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { check.Must(t, locks.Run(running)) })
	defer func() { stop(); all.Wait() }()
	var tokens []int64
	for range 2 {
		l, token, err := fence.Acquire(ctx, locks, issuer, "lock:{sku}")
		check.Must(t, err)
		tokens = append(tokens, token)
		check.Must(t, l.Release(ctx))
	}
	for i, want := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, nil)
		check.Must(t, err)
		if err := issuer.Check(ctx, tx, "lock:{sku}", tokens[i]); (err == nil) != want {
			t.Errorf("fence: token %d of %v: got error %v, want accepted %t", tokens[i], tokens, err, want)
		}
		check.Must(t, tx.Rollback())
	}
}
