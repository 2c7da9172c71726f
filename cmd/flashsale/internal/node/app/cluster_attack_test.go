package app

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A whole load test while the sale's slot moves to another master, and that master
// then dies without having told its replica of the last half second.
func TestVerdictWhileAClusterChanges(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_LONG") == "" {
		t.Skip("takes half a minute: set FLASHSALE_TEST_LONG=1")
	}
	cluster := servertest.OpenRedisCluster(t, 3)
	ctx, sku := t.Context(), "load"
	was, err := cluster.Owner(ctx, "sale:{load}")
	check.Must(t, err)
	to := cluster.Nodes[(slices.Index(cluster.Nodes, was)+1)%3]
	replica, err := cluster.AddReplica(ctx, to)
	check.Must(t, err)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: cluster.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	a := start(t, s, nil)
	start(t, s, nil) // keeps the sale, or takes it over

	cfg := loadtest.Defaults()
	cfg.Target, cfg.Token, cfg.SKU, cfg.Seed = a.URL(), a.Token, sku, time.Now().UnixNano()
	cfg.Stock, cfg.Buyers, cfg.Rate, cfg.Duration = 1000, 5000, 400, 10*time.Second
	changed := make(chan error, 1)
	go func() {
		_ = client.Wait(ctx, 2*time.Second) // load builds up
		move, err := cluster.BeginMove(ctx, "sale:{load}", to)
		for err == nil {
			var keys []string
			if keys, err = move.Keys(ctx); len(keys) == 0 {
				break
			}
			err = errors.Join(move.Move(ctx, keys[0]), client.Wait(ctx, 50*time.Millisecond))
		}
		if err == nil {
			err = move.End(ctx)
		}
		_ = client.Wait(ctx, 2*time.Second)
		if err == nil {
			err = to.Detach(ctx, replica)
		}
		_ = client.Wait(ctx, 500*time.Millisecond)
		changed <- errors.Join(err, cluster.Failover(ctx, to, replica))
	}()
	report, err := loadtest.Run(ctx, cfg)
	check.Must(t, errors.Join(err, <-changed))
	var text strings.Builder
	_ = report.WriteText(&text)
	t.Log(text.String())
	if report.ExitCode() != 0 {
		t.Error("the verdict is not PASS")
	}
}
