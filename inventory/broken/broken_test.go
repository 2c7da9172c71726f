package broken_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"flashsale/inventory"
	"flashsale/inventory/broken"
	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "64") // they wait more than they work
	goleak.VerifyTestMain(m)
}

// gate is what the checks ask of a right gate and of the broken ones alike.
type gate interface {
	SoldOut(sku, buyer string) bool
	Reserve(context.Context, inventory.Request) (inventory.Reservation, error)
	Look(context.Context, string) (inventory.View, error)
	Queue(ctx context.Context, sku, after string, limit int64) ([]inventory.Queued, error)
	Install(context.Context, *inventory.Draft, int64, inventory.Stock) (bool, error)
	Release(context.Context, string, inventory.Mandate, []string) (int64, error)
}

// A shop is one sale behind one gate.
type shop struct {
	t *testing.T
	gate
	sku  string
	next atomic.Int64
}

var (
	mandate = inventory.Mandate{Fence: 1, Epoch: 1}
	skus    atomic.Int64
)

func open(t *testing.T, g gate, total, perBuyer int64) *shop {
	t.Helper()
	s := &shop{t: t, gate: g, sku: fmt.Sprint("S", skus.Add(1))}
	now := time.Now().Truncate(time.Millisecond)
	terms := inventory.Terms{Total: total, PerBuyer: perBuyer, OpensAt: now.Add(-time.Hour), ClosesAt: now.Add(time.Hour)}
	d := &inventory.Draft{SKU: s.sku, Fence: mandate.Fence}
	if ok, err := g.Install(t.Context(), d, mandate.Epoch, inventory.Stock{Terms: terms, Available: total}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return s
}

func (s *shop) order(buyer string, quantity int64) (id string, err error) {
	id = fmt.Sprint("o", s.next.Add(1))
	_, err = s.Reserve(s.t.Context(), inventory.Request{OrderID: id, SKU: s.sku, Buyer: buyer, Quantity: quantity, Node: "n"})
	return id, err
}

// rush lets new buyers order one unit each, so many at a time, until several in
// a row are refused. It returns the orders.
func (s *shop) rush(callers int) (ids []string) {
	var mu sync.Mutex
	var noes atomic.Int64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for noes.Load() < 5 {
				buyer := fmt.Sprint("buyer-", s.next.Add(1))
				if s.SoldOut(s.sku, buyer) {
					noes.Add(1)
					continue
				}
				id, err := s.order(buyer, 1)
				switch {
				case errors.Is(err, inventory.ErrSoldOut):
					noes.Add(1)
				case err != nil:
					s.t.Error(err)
					return
				default:
					noes.Store(0)
					mu.Lock()
					ids = append(ids, id)
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	return ids
}

// The checks. Each returns by how much a gate is wrong.
var checks = map[string]func(t *testing.T, g gate) int64{
	"oversold": func(t *testing.T, g gate) int64 {
		const total = 40
		s := open(t, g, total, 1)
		return int64(len(s.rush(40))) - total
	},
	"oversold, few callers": func(t *testing.T, g gate) int64 {
		const total = 20
		s := open(t, g, total, 1)
		return int64(len(s.rush(8))) - total
	},
	"oversold, whatever is cancelled": func(t *testing.T, g gate) int64 {
		const total = 200
		s := open(t, g, total, 2)
		var held, refused atomic.Int64 // units; when in Unix ms
		over := func() bool {
			first := refused.Load()
			return first > 0 && time.Now().UnixMilli() > first+300
		}
		var running sync.WaitGroup
		for range 40 {
			running.Go(func() {
				for !over() {
					n := s.next.Add(1)
					id, err := s.order(fmt.Sprint("buyer-", n), 1+n%2)
					if errors.Is(err, inventory.ErrSoldOut) {
						refused.CompareAndSwap(0, time.Now().UnixMilli())
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					held.Add(1 + n%2)
					if n%10 != 0 {
						continue
					}
					units, err := g.Release(t.Context(), s.sku, mandate, []string{id}) // a tenth is cancelled at once
					if err != nil {
						t.Error(err)
					}
					held.Add(-units)
				}
			})
		}
		running.Wait()
		return held.Load() - total
	},
	"undersold": func(t *testing.T, g gate) int64 {
		const total, cancelled = 20, 5
		s := open(t, g, total, 1)
		ids := s.rush(1)
		if units, err := g.Release(t.Context(), s.sku, mandate, ids[:cancelled]); units != cancelled || err != nil {
			t.Fatal(units, err)
		}
		// A right gate may refuse from memory for a moment.
		again := 0
		for deadline := time.Now().Add(300 * time.Millisecond); again < cancelled && time.Now().Before(deadline); {
			again += len(s.rush(1))
		}
		return int64(cancelled - again)
	},
	"drift": func(t *testing.T, g gate) int64 {
		const total = 20
		s := open(t, g, total, 1)
		s.rush(1)
		view, err := g.Look(t.Context(), s.sku)
		if err != nil {
			t.Fatal(err)
		}
		return total - view.Available - view.Holds
	},
	"over limit": func(t *testing.T, g gate) (units int64) {
		const limit = 2
		s := open(t, g, 20, limit)
		for range 3 {
			if _, err := s.order("ann", 2); err == nil {
				units += 2
			} else if !errors.Is(err, inventory.ErrBuyerLimit) {
				t.Error(err)
			}
		}
		return units - limit
	},
}

// Each strategy fails its own checks, ten times out of ten, and passes the
// others; ours passes all.
func TestEachBreaksInItsOwnWay(t *testing.T) {
	breaks := map[string][]string{
		"lua":       nil,
		"get-decr":  {"oversold", "oversold, few callers", "oversold, whatever is cancelled"},
		"decr-leak": {"undersold", "drift"},
		"no-limit":  {"over limit"},
	}
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) {
		rdb := connect(t, r.URL)
		for strategy, expected := range breaks {
			t.Run(strategy, func(t *testing.T) {
				for name, check := range checks {
					want, rounds := slices.Contains(expected, name), 2
					if want {
						rounds = 10
					}
					for n := range rounds {
						t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
							t.Parallel()
							g := gateOf(t, strategy, rdb)
							if by := check(t, g); by > 0 != want {
								t.Errorf("wrong by %d, expected to be: %v", by, want)
							}
						})
					}
				}
			})
		}
	})
}

func gateOf(t *testing.T, strategy string, rdb redis.UniversalClient) gate {
	t.Helper()
	right := inventory.New(rdb, inventory.Config{})
	if strategy == "lua" {
		return right
	}
	g, err := broken.Gate(strategy, right, rdb)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// All that a strategy does not get wrong, it gets right.
func TestOnlyTheirOwnMistake(t *testing.T) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) {
		rdb := connect(t, r.URL)
		for _, strategy := range []string{"lua", "get-decr", "decr-leak", "no-limit"} {
			t.Run(strategy, func(t *testing.T) {
				s := open(t, gateOf(t, strategy, rdb), 100, 5)
				ask := func(want error, known bool, r inventory.Request) inventory.Reservation {
					t.Helper()
					r.SKU = s.sku
					got, err := s.Reserve(t.Context(), r)
					var no *inventory.Refusal
					if !errors.Is(err, want) || errors.As(err, &no) && no.Known != known {
						t.Errorf("%+v: %+v, %v", r, got, err)
					}
					return got
				}
				keyed := inventory.Request{OrderID: "a", Buyer: "ann", Quantity: 2, Key: "k", Fingerprint: "p q", Node: "n"}
				got := ask(nil, false, keyed)
				if again := ask(nil, false, keyed); again != got {
					t.Errorf("the same request: %+v, then %+v", got, again)
				}
				replay := keyed
				replay.OrderID = "b"
				if got := ask(nil, false, replay); !got.Replayed || got.OrderID != "a" {
					t.Errorf("replay: %+v", got)
				}
				other := replay
				other.Fingerprint = "r"
				ask(inventory.ErrMismatch, true, other)
				ask(inventory.ErrInvalid, false, inventory.Request{OrderID: "c", Buyer: "bob"})
				ask(inventory.ErrInvalid, false, inventory.Request{OrderID: "c", Quantity: 1})
				ask(inventory.ErrInvalid, true, inventory.Request{OrderID: "two words", Buyer: "ann", Quantity: 1})
				unkeyed := inventory.Request{OrderID: "d", Buyer: "dan", Quantity: 1}
				got = ask(nil, false, unkeyed)
				if again := ask(nil, false, unkeyed); again != got {
					t.Errorf("the same request: %+v, then %+v", got, again)
				}
				if strategy != "no-limit" {
					ask(inventory.ErrBuyerLimit, true, inventory.Request{OrderID: "e", Buyer: "ann", Quantity: 4})
					ask(inventory.ErrBuyerLimit, false, inventory.Request{OrderID: "e", Buyer: "eve", Quantity: 6})
				}
				queue, err := s.Queue(t.Context(), s.sku, "", 10)
				if err != nil || len(queue) != 2 || queue[0].OrderID != "a" || queue[0].Key != "k" || queue[0].Fingerprint != "p q" ||
					queue[1].OrderID != "d" || !queue[1].At.Equal(got.At) {
					t.Errorf("queue: %+v, %v", queue, err)
				}
				view, err := s.Look(t.Context(), s.sku)
				if err != nil || view.Holds != 2 || view.Available != 97 {
					t.Errorf("%+v, %v", view, err)
				}
				if units, err := s.Release(t.Context(), s.sku, mandate, []string{"a", "d"}); units != 3 || err != nil {
					t.Errorf("released %d, %v", units, err)
				}
				s.sku = "no such"
				ask(inventory.ErrNoGate, false, unkeyed)
			})
		}
	})
}

// The same request fifty times at once: one order.
func TestBrokenButIdempotent(t *testing.T) {
	servertest.EachRedis(t, func(t *testing.T, r *servertest.Redis) {
		rdb := connect(t, r.URL)
		for _, strategy := range broken.Strategies {
			s := open(t, gateOf(t, strategy.Name, rdb), 100, 100)
			var running sync.WaitGroup
			for i := range 50 {
				running.Go(func() {
					r := inventory.Request{OrderID: fmt.Sprint("o", i), SKU: s.sku, Buyer: "ann", Quantity: 1, Key: "k", Fingerprint: "p"}
					if _, err := s.Reserve(t.Context(), r); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			if view, err := s.Look(t.Context(), s.sku); view.Holds != 1 || view.Available != 99 || err != nil {
				t.Errorf("%s: %+v, %v", strategy.Name, view, err)
			}
		}
	})
}

func TestStrategies(t *testing.T) {
	_, err := broken.Gate("luck", nil, nil)
	for _, s := range broken.Strategies {
		if err == nil || !strings.Contains(err.Error(), s.Name) || s.Does == "" {
			t.Errorf("%q does not name %s: %s", err, s.Name, s.Does)
		}
	}
}

func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.ContextTimeoutEnabled = true
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
