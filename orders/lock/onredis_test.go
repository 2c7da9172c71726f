package lock_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/internal/onredis"
	"flashsale/orders/lock/lease"
)

// All keys of a lock share a slot of a Redis Cluster. The hash tag in braces determines it.
func TestKeysShareASlot(t *testing.T) {
	for key, tag := range map[string]string{"lock:{sku}": "{sku}", "plain": "{plain}", "a{b}c{d}": "{b}"} {
		check.OK(t, onredis.CheckKey(key))
		for _, k := range onredis.Keys(key)[1:] {
			_, rest, _ := strings.Cut(k, "{")
			if first, _, _ := strings.Cut(rest, "}"); "{"+first+"}" != tag {
				t.Errorf("key %q: got %q with tag {%s}, want tag %s", key, k, first, tag)
			}
		}
	}
	for _, key := range []string{"", "{}", "a}b", "{", "{}x"} {
		check.Is(t, onredis.CheckKey(key), lease.ErrKey)
	}
}

// New recognizes a client type that embeds a client of go-redis, and logs that it does not call
// the methods of that type. New logs another warning for all other types.
func TestEmbeddedClientIsRecognized(t *testing.T) {
	one, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}})
	defer func() { _, _ = one.Close(), cluster.Close() }()
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		reach  string
		warns  string
	}{
		{"one server", one, "1", ""},
		{"one server, embedded", struct{ *redis.Client }{one}, "1", "methods that this Redis client type overrides"},
		{"cluster", cluster, "0", ""},
		{"cluster, embedded", struct{ *redis.ClusterClient }{cluster}, "0", "methods that this Redis client type overrides"},
		{"hidden", struct{ redis.UniversalClient }{one}, "0", "unknown type"},
	} {
		var log strings.Builder
		s := onredis.New(c.client, lease.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if s.Extra != c.reach || !strings.Contains(log.String(), c.warns) || (log.Len() > 0) != (c.warns != "") {
			t.Errorf("client %s: got reach %s and log %q, want reach %s and a warning with %q", c.name, s.Extra, &log, c.reach, c.warns)
		}
	}
}
