package app

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock"
	"flashsale/orders/lock/mysql"
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
func (c Config) validateLock() error {
	var errs []error
	switch c.Lock {
	case lockRedis, lockMySQL:
		if len(c.LockServers) > 0 {
			errs = append(errs, fmt.Errorf("lock-servers: %s has its own; they are for redlock and zookeeper", c.Lock))
		}
		if c.Lock == lockMySQL && strings.HasPrefix(c.SQL, "sqlite:") {
			errs = append(errs, errors.New("lock: mysql needs --mysql, the embedded database has no locks"))
		}
	case lockRedlock:
		if n := len(c.LockServers); n < fewestMasters || n%2 == 0 {
			errs = append(errs, fmt.Errorf("lock-servers: redlock wants %d Redis URLs or more, an odd number, not %d", fewestMasters, n))
		}
		for i, url := range c.LockServers {
			options, err := redisOptions(url)
			if err != nil {
				errs = append(errs, fmt.Errorf("lock-servers: %w", err))
			} else if options.IsClusterMode {
				errs = append(errs, fmt.Errorf("lock-servers: %q is a cluster, redlock wants single masters", Redact(url)))
			}
			if slices.Contains(c.LockServers[:i], url) {
				errs = append(errs, fmt.Errorf("lock-servers: %q is there twice, and would have two votes", Redact(url)))
			}
		}
	case lockZooKeeper:
		if len(c.LockServers) == 0 {
			errs = append(errs, errors.New("lock-servers: zookeeper wants host:port of its servers"))
		}
		for _, server := range c.LockServers {
			if _, _, err := net.SplitHostPort(server); err != nil {
				errs = append(errs, fmt.Errorf("lock-servers: %q is no host:port of a ZooKeeper", server))
			}
		}
	default:
		names := []string{lockRedis, lockRedlock, lockZooKeeper, lockMySQL}
		errs = append(errs, fmt.Errorf("lock: %q is none of %s", c.Lock, strings.Join(names, ", ")))
	}
	return errors.Join(errs...)
}

// locks makes the Locker that was chosen. What it opens is closed with the App.
func (a *App) locks(lease time.Duration) (lock.Locker, error) {
	cfg := lock.Config{Lease: lease, Logger: a.cfg.Log}
	switch a.cfg.Lock {
	case lockRedlock:
		var masters []redis.UniversalClient
		for _, url := range a.cfg.LockServers {
			options, err := redisOptions(url)
			if err != nil {
				return nil, err
			}
			rdb := redis.NewUniversalClient(options)
			a.closing = append(a.closing, func() { _ = rdb.Close() })
			masters = append(masters, rdb)
		}
		return lock.NewRedlock(masters, cfg), nil
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
