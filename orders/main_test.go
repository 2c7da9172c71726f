package orders

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) {
	if servertest.Race {
		_ = flag.Set("rapid.checks", "30") // instead of 100; the command line has the last word
	}
	servertest.Main(m)
}

// A shop is a Service that runs, on stores of its own.
type shop struct {
	*Service
	rdb  redis.UniversalClient
	gate *inventory.Gate
	stop func() // stops it and waits, as a node that shuts down does
}

// openStore returns a migrated store on sql.
func openStore(t testing.TB, sql string) *Store {
	t.Helper()
	store, err := Open(sql, StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func openRedis(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// open starts a node on the stores; change may alter its config.
func open(t testing.TB, s *servers.Stores, change func(*Config)) *shop {
	t.Helper()
	p := build(t, s, change)
	p.start(t)
	return p
}

// build makes a node that does not run yet.
func build(t testing.TB, s *servers.Stores, change func(*Config)) *shop {
	t.Helper()
	store, rdb := openStore(t, s.SQL), openRedis(t, s.RedisURL)
	gate := inventory.New(rdb, inventory.Config{})
	cfg := Config{Store: store, Gate: gate, Redis: rdb, Log: quiet(t)}
	if change != nil {
		change(&cfg)
	}
	return &shop{Service: New(cfg), rdb: rdb, gate: gate}
}

func (p *shop) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the node did not stop within 30 s")
		}
	})
	t.Cleanup(p.stop)
}

// quiet is a log that shows only when asked for.
func quiet(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(testLog{t}, nil)) }

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	if os.Getenv("FLASHSALE_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(b)
	}
	return len(b), nil
}

// sale is an open sale of total units.
func sale(sku string, total, perBuyer int64) Sale {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return Sale{
		SKU: sku, Name: "A thing", Price: 1999, Currency: "EUR", Total: total, PerBuyerLimit: perBuyer,
		OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour), PaymentWindowS: 900, ReserveOn: OnOrder,
	}
}

func (p *shop) put(t testing.TB, s Sale) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, _, err := p.PutSale(t.Context(), s)
		if err == nil {
			return
		}
		// What an operator is told with a 503: try again.
		busy := errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		if !busy || time.Now().After(deadline) {
			t.Fatalf("put sale %s: %v", s.SKU, err)
		}
	}
}

// eventually polls until ok, for at most a minute.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// settled waits until nothing is in flight and returns the audit.
func (p *shop) settled(t testing.TB, sku string) (a Audit) {
	t.Helper()
	eventually(t, "settled "+sku, func() bool {
		var err error
		a, err = p.Audit(t.Context(), sku)
		return err == nil && a.Held == 0 && a.Restoring == 0 && a.Balanced
	})
	return a
}
