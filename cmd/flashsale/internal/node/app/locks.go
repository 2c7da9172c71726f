package app

import (
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
	"flashsale/orders/store"
)

// The values of Config.Lock.
const (
	lockRedis     = "redis"
	lockRedlock   = "redlock"
	lockZooKeeper = "zookeeper"
	lockMySQL     = "mysql"
)

// fewestMasters is the minimum for redlock. With fewer masters, the loss of one of them
// would block every lock.
const fewestMasters = 3

// validateLock checks Lock and LockServers.
func (c Config) validateLock(f *faults) {
	switch n := len(c.LockServers); c.Lock {
	case lockRedis, lockMySQL:
		f.check(n == 0, "--lock-servers: only redlock and zookeeper use them, not %s", c.Lock)
		embedded := strings.HasPrefix(c.SQL, "sqlite:")
		f.check(c.Lock == lockRedis || !embedded, "--lock: mysql needs --mysql: the embedded database has no locks")
	case lockRedlock:
		f.check(n >= fewestMasters && n%2 == 1, "--lock-servers: redlock needs an odd number of Redis URLs, at least %d, and has %d", fewestMasters, n)
		for i, url := range c.LockServers {
			options, err := redisOptions(url)
			f.check(err == nil, "--lock-servers: %w", err)
			f.check(err != nil || !options.IsClusterMode, "--lock-servers: %q is a cluster: redlock needs single masters", Redact(url))
			f.check(!slices.Contains(c.LockServers[:i], url), "--lock-servers: %q is given twice and would have two votes", Redact(url))
		}
	case lockZooKeeper:
		f.check(n > 0, "--lock-servers: zookeeper needs host:port of its servers")
		for _, server := range c.LockServers {
			_, _, err := net.SplitHostPort(server)
			f.check(err == nil, "--lock-servers: %q is not host:port of a ZooKeeper server", server)
		}
	default:
		names := []string{lockRedis, lockRedlock, lockZooKeeper, lockMySQL}
		f.check(false, "--lock: unknown store %q, want one of %s", c.Lock, strings.Join(names, ", "))
	}
}

// locks returns the Locker that Config.Lock names. App.close closes its connections.
func (a *App) locks(leased time.Duration) (lease.Locker, error) {
	cfg := lease.Config{Lease: leased, Prefix: Prefix(a.cfg.Namespace), Logger: a.cfg.Log}
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
		// Each lock holds a connection, so the locks must not use the pool of the store.
		db, err := store.OpenSessions(a.cfg.SQL)
		if err != nil {
			return nil, fmt.Errorf("open the MySQL of the lock: %w", err)
		}
		a.closing = append(a.closing, func() { _ = db.Close() })
		return mysql.New(db, cfg), nil
	}
	return lock.New(a.rdb, cfg), nil
}
