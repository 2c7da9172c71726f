package onredis

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// A program's own client is known by what it has in it; of what is not known the
// log tells.
func TestClientsOfAProgram(t *testing.T) {
	one, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}})
	defer func() { _, _ = one.Close(), cluster.Close() }()
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		reach  string
		warns  bool
	}{
		{"one server", one, "1", false},
		{"one server, embedded", struct{ *redis.Client }{one}, "1", false},
		{"cluster", cluster, "0", false},
		{"cluster, embedded", struct{ *redis.ClusterClient }{cluster}, "0", false},
		{"hidden", struct{ redis.UniversalClient }{one}, "0", true},
	} {
		var log strings.Builder
		s := New(c.client, lease.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if s.Reach != c.reach || strings.Contains(log.String(), "unknown kind") != c.warns {
			t.Errorf("%s: reach %s, log %q", c.name, s.Reach, &log)
		}
	}
}
