// Package servers starts what the project runs against when nobody gives it a
// Redis and a MySQL: embedded stores inside this process, or private real
// servers on loopback ports. It is a leaf: it imports nothing of the module,
// so that the demo, the benchmarks and every test may use it.
//
// Whatever it starts belongs to the caller, who calls Close. Real servers write
// into a temporary directory of their own and die with this process, even when
// it is killed (on Linux; elsewhere only Close stops them). A killed process
// leaves the directory behind.
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

// The two kinds of Stores.
const (
	KindEmbedded = "embedded"
	KindReal     = "real"
)

// Stores are one Redis and one SQL database to run against.
type Stores struct {
	Kind     string // KindEmbedded or KindReal
	RedisURL string // redis://127.0.0.1:port/0
	SQL      string // sqlite:/dir/file.db, or user@tcp(127.0.0.1:port)/database
	Versions string // for reports: "Redis 7.0.15, MariaDB 10.11.19"

	// The servers behind the addresses, for whoever wants to break them: Mini
	// when embedded, Redis and MySQL when real, the others nil.
	Mini  *MiniRedis
	Redis *Redis
	MySQL *MySQL

	closers
}

// closers end what was started; they are in the order of the starts.
type closers []func() error

// Close stops the servers, waits for their end and removes their directories.
// What was stored is gone. Further calls do nothing.
func (c *closers) Close() error {
	var errs []error
	for _, end := range slices.Backward(*c) {
		errs = append(errs, end())
	}
	*c = nil
	return errors.Join(errs...)
}

// Options says how the real servers are to run. The zero value is good.
type Options struct {
	Redis RedisOptions
	MySQL MySQLOptions
}

// Embedded starts a miniredis on a loopback port and names a SQLite file, not
// created yet, in a fresh temporary directory. ctx bounds the start only.
func Embedded(ctx context.Context) (*Stores, error) {
	dir, err := os.MkdirTemp("", "flashsale-sqlite-")
	if err != nil {
		return nil, fmt.Errorf("servers: directory for SQLite: %w", err)
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

// embeddedVersions are those of the modules that stand in for Redis and MySQL.
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

// Real starts a private redis-server and a private mariadbd (or mysqld) with an
// empty database. If one of them is not installed, the error is ErrNotInstalled,
// and names the packages to install. ctx applies to the start only, which takes
// about two seconds. If ctx has no deadline, the start fails after five minutes.
func Real(ctx context.Context, o Options) (*Stores, error) {
	// Both are looked for before either is started: one error names all that is missing.
	_, noRedis := findRedis(o.Redis.SearchPath)
	_, noMySQL := findMySQL(o.MySQL.SearchPath)
	if err := errors.Join(noRedis, noMySQL); err != nil {
		return nil, err
	}

	s := &Stores{Kind: KindReal}
	var err error
	if s.Redis, err = StartRedis(ctx, o.Redis); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.Redis.Close)
	if s.MySQL, err = StartMySQL(ctx, o.MySQL); err != nil {
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
