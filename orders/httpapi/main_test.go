package httpapi_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/shop"
	"flashsale/orders/store"
)

// served is a Service and its stores.
type served struct {
	*shop.Service
	store *store.Store
	gate  inventory.KeeperGate
	rdb   redis.UniversalClient
}

// build returns a Service that does not run.
func build(t *testing.T, s *servers.Stores, change func(*shop.Config)) *served {
	t.Helper()
	st, rdb := bare.OpenStore(t, s.SQL), kit.OpenRedis(t, s.RedisURL)
	gate := bare.NewGate(rdb, 0)
	cfg := shop.Config{Store: st, Gate: gate, Redis: rdb, Log: check.Log(t)}
	if change != nil {
		change(&cfg)
	}
	return &served{shop.New(cfg), st, gate, rdb}
}

// serve starts a Service. If put has a SKU, serve also creates the sale put.
func serve(t *testing.T, s *servers.Stores, put orders.Sale, change func(*shop.Config)) *served {
	t.Helper()
	p := build(t, s, change)
	bare.Start(t, p.Run)
	if put.SKU != "" {
		check.Eventually(t, "the sale is created", func() bool {
			_, _, err := p.PutSale(t.Context(), put)
			return err == nil
		})
	}
	return p
}

func TestMain(m *testing.M) { servertest.Main(m) }
