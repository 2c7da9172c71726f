package variants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// A sale is one sale of a shop.
type sale struct {
	*testing.T
	Shop
	Sale
	buyers atomic.Int64
}

var skus atomic.Int64

func open(t *testing.T, shop Shop, total, unitsPerBuyer int) *sale {
	t.Helper()
	s := &sale{T: t, Shop: shop, Sale: Sale{SKU: fmt.Sprint("S", skus.Add(1)), Total: total, UnitsPerBuyer: unitsPerBuyer, WindowMS: 60_000}}
	check.Must(t, shop.Open(t.Context(), s.Sale))
	return s
}

func (s *sale) order(buyer string, quantity int) (Order, error) {
	id := uuid.NewString()
	o, _, err := s.Order(s.Context(), Order{
		ID: id, SKU: s.SKU, Buyer: buyer, Key: id, Quantity: quantity,
		Status: Pending, CreatedMS: now(), ExpiresMS: now() + s.WindowMS,
	})
	return o, err
}

// rush lets new buyers order one unit each until several orders in a row are refused.
// It runs this number of callers. One in cancels orders is cancelled at once, none if
// cancels is 0.
func (s *sale) rush(callers int, cancels int64) (sold []Order) {
	var mu sync.Mutex
	var running sync.WaitGroup
	var refusals atomic.Int64
	for range callers {
		running.Go(func() {
			for refusals.Load() < 5 {
				n := s.buyers.Add(1)
				o, err := s.order(fmt.Sprint("buyer-", n), 1)
				switch {
				case errors.Is(err, ErrSoldOut):
					refusals.Add(1)
					continue
				case errors.Is(err, ErrBusy): // the machine is too slow for the lock's timeout
					continue
				case err != nil:
					s.Errorf("order during the rush: got error %v, want none or a refusal", err)
					return
				case cancels > 0 && n%cancels == 0:
					check.Eventually(s.T, "the shop is not too busy to cancel", func() bool {
						err = s.Close(s.Context(), o, Cancelled)
						return !errors.Is(err, ErrBusy)
					})
					if err != nil {
						s.Errorf("cancel an order during the rush: got error %v, want none", err)
					}
					continue
				}
				refusals.Store(0)
				mu.Lock()
				sold = append(sold, o)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return sold
}

// checks return by how many units a shop is wrong.
var checks = map[string]func(t *testing.T, shop Shop) int{
	"oversold": func(t *testing.T, shop Shop) int {
		return len(open(t, shop, 40, 1).rush(40, 0)) - 40
	},
	"oversold, few callers": func(t *testing.T, shop Shop) int {
		return len(open(t, shop, 20, 1).rush(8, 0)) - 20
	},
	"oversold, whatever is cancelled": func(t *testing.T, shop Shop) int {
		return len(open(t, shop, 100, 1).rush(40, 10)) - 100
	},
	"undersold": func(t *testing.T, shop Shop) int {
		s := open(t, shop, 20, 1)
		sold := s.rush(1, 0)
		for _, o := range sold[:5] {
			check.Must(t, s.Close(t.Context(), o, Cancelled))
		}
		return 5 - len(s.rush(1, 0))
	},
	"drift": func(t *testing.T, shop Shop) int {
		s := open(t, shop, 20, 1)
		sold := s.rush(1, 0)
		stock, err := s.Stock(t.Context(), s.SKU)
		check.Must(t, err)
		return s.Total - stock.Available - len(sold)
	},
	"over limit": func(t *testing.T, shop Shop) (units int) {
		s := open(t, shop, 20, 2)
		for range 3 {
			if _, err := s.order("ann", 2); err == nil {
				units += 2
			} else if !errors.Is(err, ErrBuyerLimit) {
				t.Errorf("second order of the buyer: got error %v, want ErrBuyerLimit", err)
			}
		}
		return units - s.UnitsPerBuyer
	},
}

// Each broken variant of the table fails its own checks in five of five runs, and no
// other check. The right variants pass all checks.
func TestBrokenVariantsFailTheirChecks(t *testing.T) {
	breaks := map[string][]string{
		"get-decr":           {"oversold", "oversold, few callers", "oversold, whatever is cancelled"},
		"decr-leak":          {"undersold", "drift"},
		"no-limit":           {"over limit"},
		"lock-per-order":     nil,
		"conditional-update": nil,
	}
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		stores, err := Connect(s.RedisURL, s.SQL)
		check.Must(t, err)
		t.Cleanup(func() { _ = stores.Close() })
		check.Must(t, errors.Join(Migrate(t.Context(), stores.DB), Migrate(t.Context(), stores.DB))) // every process of a variant migrates when it starts
		for name, expected := range breaks {
			v, _ := Find(name)
			for kind, wrong := range checks {
				want, rounds := slices.Contains(expected, kind), 1
				if want {
					rounds = 5
				}
				for n := range rounds {
					t.Run(fmt.Sprint(name, " ", kind, " ", n), func(t *testing.T) {
						t.Parallel()
						shop := v.New(stores) // sales of a shared shop would wait for each other
						if l, ok := shop.(lockPerOrder); ok {
							ctx, stop := context.WithCancel(t.Context())
							var running sync.WaitGroup
							running.Go(func() { _ = l.also(ctx) })
							t.Cleanup(func() { stop(); running.Wait() })
						}
						if by := wrong(t, shop); by > 0 != want {
							t.Errorf("stock of the variant: got wrong by %d units, want it wrong: %v", by, want)
						}
					})
				}
			}
		}
	})
}

// Concurrent requests with one key make one order, even in a broken shop.
func TestBrokenVariantsAreIdempotent(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		stores, err := Connect(s.RedisURL, s.SQL)
		check.Must(t, err)
		t.Cleanup(func() { _ = stores.Close() })
		check.Must(t, Migrate(t.Context(), stores.DB))
		for _, name := range []string{"get-decr", "decr-leak", "no-limit"} {
			v, _ := Find(name)
			s := open(t, v.New(stores), 100, 100)
			var running sync.WaitGroup
			for range 50 {
				running.Go(func() {
					o := Order{ID: uuid.NewString(), SKU: s.SKU, Buyer: "ann", Key: "k", Quantity: 1, Status: Pending, CreatedMS: now(), ExpiresMS: now() + 60_000}
					// The buyer retries while another call stores the same order.
					check.Eventually(t, "the order is known", func() bool {
						_, _, err := s.Order(t.Context(), o)
						return err == nil
					})
				})
			}
			running.Wait()
			stock, err := s.Stock(t.Context(), s.SKU)
			if rows, e := s.Orders(t.Context(), s.SKU, "", 10); err != nil || e != nil || len(rows) != 1 || stock.Available != 99 {
				t.Errorf("variant %s after a repeated order: got %d rows, stock %+v, error %v, want 1 row, 99 available",
					name, len(rows), stock, errors.Join(err, e))
			}
		}
	})
}
