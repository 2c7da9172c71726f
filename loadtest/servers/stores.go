// Package servers starts a Redis and a SQL database for runs that have none: embedded
// stores inside this process, or private real servers on loopback ports. It imports no
// other package of the module, so the demo, the benchmarks and every test can use it.
//
// The caller must call Close. Real servers write into their own temporary directory. On
// Linux they are killed when this process ends, even if it is killed. On other systems
// only Close stops them. A killed process leaves the directory behind.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// The kinds of Stores.
const (
	KindEmbedded = "embedded"
	KindReal     = "real"
)

// Stores is one Redis and one SQL database.
type Stores struct {
	Kind     string // KindEmbedded or KindReal
	RedisURL string // redis://127.0.0.1:port/0
	SQL      string // sqlite:/dir/file.db, or user@tcp(127.0.0.1:port)/database
	Versions string // versions for reports, such as "Redis 7.0.15, MariaDB 10.11.19"

	// The servers behind the addresses, for tests that break them. Embedded stores have
	// Mini, real ones Redis and MySQL. The rest is nil.
	Mini  *MiniRedis
	Redis *Redis
	MySQL *MySQL

	closers
}

// closers contains the functions that stop the servers, in the order of their starts.
type closers []func() error

// Close stops the servers and removes their directories and all data. Further calls do
// nothing.
func (c *closers) Close() error {
	var errs []error
	for _, end := range slices.Backward(*c) {
		errs = append(errs, end())
	}
	*c = nil
	return errors.Join(errs...)
}

// Config configures the real servers. The zero value is ready to use.
type Config struct {
	Redis RedisConfig
	MySQL MySQLConfig
}

// StartEmbedded starts a miniredis on a loopback port and returns the name of a SQLite file
// in a new temporary directory. It does not create the file. ctx applies to the start
// only.
func StartEmbedded(ctx context.Context) (*Stores, error) {
	dir, err := os.MkdirTemp("", "flashsale-sqlite-")
	if err != nil {
		return nil, fmt.Errorf("servers: create a directory for SQLite: %w", err)
	}
	s := &Stores{
		Kind:     KindEmbedded,
		SQL:      "sqlite:" + filepath.ToSlash(filepath.Join(dir, "flashsale.db")),
		Versions: embeddedVersions(),
		closers:  closers{func() error { return os.RemoveAll(dir) }},
	}
	if s.Mini, err = StartMiniRedis(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.RedisURL, s.closers = s.Mini.URL, append(s.closers, s.Mini.Close)
	return s, nil
}

// embeddedVersions returns the versions of the modules miniredis and SQLite.
func embeddedVersions() string {
	names := map[string]string{"github.com/alicebob/miniredis/v2": "miniredis ", "modernc.org/sqlite": "SQLite of modernc.org/sqlite "}
	var versions []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if name := names[module.Path]; name != "" {
				versions = append(versions, name+module.Version)
			}
		}
	}
	return strings.Join(versions, ", ")
}

// StartReal starts a private redis-server and a private mariadbd (or mysqld) with an
// empty database. If one of them is not installed, the error is ErrNotInstalled,
// and names the packages to install. ctx applies to the start only, which takes
// about two seconds. If ctx has no deadline, the start fails after five minutes.
func StartReal(ctx context.Context, cfg Config) (*Stores, error) {
	// Search for both before the start, so that the error names everything that is
	// missing.
	_, noRedis := findRedis(cfg.Redis.SearchPath)
	_, noMySQL := findMySQL(cfg.MySQL.SearchPath)
	if err := errors.Join(noRedis, noMySQL); err != nil {
		return nil, err
	}

	s := &Stores{Kind: KindReal}
	var err error
	if s.Redis, err = StartRedis(ctx, cfg.Redis); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.Redis.Close)
	if s.MySQL, err = StartMySQL(ctx, cfg.MySQL); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.closers = append(s.closers, s.MySQL.Close)
	if s.SQL, err = s.MySQL.NewDatabase(ctx, "flashsale"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.RedisURL = s.Redis.URL
	s.Versions = s.Redis.Version + ", " + s.MySQL.Version
	return s, nil
}
