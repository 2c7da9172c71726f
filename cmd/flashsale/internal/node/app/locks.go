package app

import (
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/mysql"
	"flashsale/orders/lock/redlock"
	"flashsale/orders/lock/zookeeper"
)

// What can keep the locks.
const (
	lockRedis     = "redis"
	lockRedlock   = "redlock"
	lockZooKeeper = "zookeeper"
	lockMySQL     = "mysql"
)

// fewestMasters: with fewer, the loss of one blocks every lock.
const fewestMasters = 3

// validateLock names what is wrong with Lock and LockServers.
func (c Config) validateLock(f *faults) {
	switch n := len(c.LockServers); c.Lock {
	case lockRedis, lockMySQL:
		f.check(n == 0, "lock-servers: %s has its own; they are for redlock and zookeeper", c.Lock)
		embedded := strings.HasPrefix(c.SQL, "sqlite:")
		f.check(c.Lock == lockRedis || !embedded, "lock: mysql needs --mysql, the embedded database has no locks")
	case lockRedlock:
		f.check(n >= fewestMasters && n%2 == 1, "lock-servers: redlock wants %d Redis URLs or more, an odd number, not %d", fewestMasters, n)
		for i, url := range c.LockServers {
			options, err := redisOptions(url)
			f.check(err == nil, "lock-servers: %w", err)
			f.check(err != nil || !options.IsClusterMode, "lock-servers: %q is a cluster, redlock wants single masters", Redact(url))
			f.check(!slices.Contains(c.LockServers[:i], url), "lock-servers: %q is there twice, and would have two votes", Redact(url))
		}
	case lockZooKeeper:
		f.check(n > 0, "lock-servers: zookeeper wants host:port of its servers")
		for _, server := range c.LockServers {
			_, _, err := net.SplitHostPort(server)
			f.check(err == nil, "lock-servers: %q is no host:port of a ZooKeeper", server)
		}
	default:
		names := []string{lockRedis, lockRedlock, lockZooKeeper, lockMySQL}
		f.check(false, "lock: %q is none of %s", c.Lock, strings.Join(names, ", "))
	}
}

// locks makes the Locker that was chosen. What it opens is closed with the App.
func (a *App) locks(leased time.Duration) (lease.Locker, error) {
	cfg := lease.Config{Lease: leased, Logger: a.cfg.Log}
	switch a.cfg.Lock {
	case lockRedlock:
		var masters []redis.UniversalClient
		for _, url := range a.cfg.LockServers {
			rdb, err := OpenRedis(url)
			if err != nil {
				return nil, err
			}
			a.closing = append(a.closing, func() { _ = rdb.Close() })
			masters = append(masters, rdb)
		}
		return redlock.New(masters, cfg), nil
	case lockZooKeeper:
		c, err := zookeeper.New(a.cfg.LockServers, cfg)
		if err != nil {
			return nil, err
		}
		a.closing = append(a.closing, c.Close)
		return c, nil
	case lockMySQL:
		// A pool of its own: it has a connection for each lock that is held.
		db, err := sql.Open("mysql", a.cfg.SQL)
		if err != nil {
			return nil, fmt.Errorf("mysql: %w", err)
		}
		a.closing = append(a.closing, func() { _ = db.Close() })
		return mysql.New(db, cfg), nil
	}
	return lock.New(a.rdb, cfg), nil
}
