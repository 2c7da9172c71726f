package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// With each lock store, two nodes sell, and the second continues after the first has stopped.
func TestLocks(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{lockRedlock, lockZooKeeper, lockMySQL} {
		t.Run(kind, func(t *testing.T) {
			stores := servers.KindEmbedded
			if kind == lockMySQL {
				stores = servers.KindReal
			}
			s := servertest.Open(t, stores)
			locks := func(c *Config) { c.Lock, c.LockServers, c.Lease = kind, lockServers(t, kind), 5*time.Second }
			one := start(t, s, locks)
			two := start(t, s, func(c *Config) { locks(c); c.LockServers = one.cfg.LockServers })
			one.put("S", 10, 1, 60)
			for i, n := range []*node{one, two} {
				n.order("S", fmt.Sprint("buyer", i)).want(201)
			}
			check.Must(t, one.stop())
			check.Eventually(t, "the second node sells", func() bool { return two.order("S", "late").status == 201 })
		})
	}
}

func lockServers(t *testing.T, kind string) (addrs []string) {
	switch kind {
	case lockRedlock:
		for range 3 {
			addrs = append(addrs, servertest.OpenRedis(t, servers.KindEmbedded).URL)
		}
	case lockZooKeeper:
		addrs = append(addrs, servertest.OpenZooKeeper(t).Addr())
	}
	return addrs
}

func TestLockConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lock    string
		servers []string
		want    string
	}{
		{"etcd", nil, `unknown store "etcd"`},
		{"redis", []string{"a:1"}, "only redlock and zookeeper"},
		{"mysql", nil, "the embedded database"},
		{"redlock", []string{"redis://a", "redis://b"}, "at least 3, and has 2"},
		{"redlock", []string{"redis://a", "redis://b", "c"}, `"c" cannot be parsed`},
		{"redlock", []string{"redis://a", "redis://b", "redis://a"}, "two votes"},
		{"redlock", []string{"redis://a", "redis://b", "redis://c:1,d:2"}, "is a cluster"},
		{"zookeeper", nil, "zookeeper needs"},
		{"zookeeper", []string{"a"}, "not host:port"},
	} {
		err := Config{Lock: c.lock, LockServers: c.servers, SQL: "sqlite:x"}.withDefaults().validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("config of the lock %s with servers %v: got error %v, want %s", c.lock, c.servers, err, c.want)
		}
	}
}
