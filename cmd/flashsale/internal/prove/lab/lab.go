// Package lab is the environment of drills, storms and benchmarks. It starts private
// stores, nodes of this program in separate processes, and a balancer in front of them.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// Config is the part of a configuration that all runs share.
type Config struct {
	Program  string    // path of this program, to start nodes
	Progress io.Writer // receives lines of progress; may be nil

	MySQL servers.MySQLConfig // settings of every database
	Redis servers.RedisConfig // settings of every Redis
}

// progressMu keeps lines of concurrent goroutines apart.
var progressMu sync.Mutex

// Progressf writes a line of progress.
func (c Config) Progressf(format string, args ...any) {
	if c.Progress != nil {
		progressMu.Lock()
		defer progressMu.Unlock()
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// Errors returns the invalid fields of the Config.
func (c Config) Errors() (f ConfigErrors) {
	f.Require(c.Program != "", "program: no path")
	return f
}

// ConfigErrors are errors of a configuration.
type ConfigErrors []error

// Require adds an error unless ok is true.
func (f *ConfigErrors) Require(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// RequireKnown adds an error for each given name that is not in all.
func (f *ConfigErrors) RequireKnown(what string, given, all []string) {
	for _, name := range given {
		f.Require(slices.Contains(all, name), "unknown %s %q, want one of %s", what, name, strings.Join(all, ", "))
	}
}

// A Lab holds private stores and the processes started for them.
type Lab struct {
	Config
	Stores *servers.Stores
	Nodes  []*Node

	secret   string
	verifier *auth.Verifier
	redis    servers.RedisConfig
	extra    map[string]*servers.Process // further servers, by the names of their logs
	cleanups []func() error
}

// Open starts stores with the durability of production.
func Open(ctx context.Context, cfg Config, redisArgs ...string) (*Lab, error) {
	redis := cfg.Redis
	redis.AppendFsync, redis.ExtraArgs = "always", redisArgs
	stores, err := servers.StartReal(ctx, servers.Config{Redis: redis, MySQL: cfg.MySQL})
	if err != nil {
		return nil, err
	}
	l, err := NewWithStores(cfg, stores)
	l.redis = redis
	return l, err
}

// NewWithStores returns a lab with running stores. Close also closes them.
func NewWithStores(cfg Config, stores *servers.Stores) (_ *Lab, err error) {
	l := &Lab{Config: cfg, Stores: stores, secret: rand.Text() + rand.Text(), extra: map[string]*servers.Process{}}
	l.verifier, err = auth.New(auth.Config{Secret: []byte(l.secret)})
	return l, err
}

// StartRedis starts another Redis with the same options.
func (l *Lab) StartRedis(ctx context.Context, name string) (*servers.Redis, error) {
	r, err := servers.StartRedis(ctx, l.redis)
	if err == nil {
		l.extra[name] = r.Process
	}
	return r, err
}

// StartMySQL starts another MySQL.
func (l *Lab) StartMySQL(ctx context.Context, name string, o servers.MySQLConfig) (*servers.MySQL, error) {
	m, err := servers.StartMySQL(ctx, o)
	if err == nil {
		l.extra[name] = m.Process
	}
	return m, err
}

// Cleanup registers a function to call after all servers have ended.
func (l *Lab) Cleanup(do func() error) { l.cleanups = append(l.cleanups, do) }

// OpenWire opens a wire in front of the server that a URL or a DSN names. It returns the URL
// or DSN of the wire, which Close closes.
func (l *Lab) OpenWire(url string) (via string, w *wire.Wire, err error) {
	if via, w, err = wire.OpenForURL(url); err == nil {
		l.Cleanup(w.Close)
	}
	return via, w, err
}

// Close ends all processes, including processes that are paused or dead.
func (l *Lab) Close() error {
	var errs []error
	for _, n := range l.Nodes {
		errs = append(errs, n.Close())
	}
	for _, p := range l.extra {
		errs = append(errs, p.Close())
	}
	errs = append(errs, l.Stores.Close())
	for _, do := range l.cleanups {
		errs = append(errs, do())
	}
	return errors.Join(errs...)
}

// CloseOnError is for a deferred call: if setting up has failed, it closes what was opened.
func CloseOnError(err *error, closeAll func() error) {
	if *err != nil {
		*err = errors.Join(*err, closeAll())
	}
}

// Token returns a signed token of a buyer or, with admin, of an operator. It is valid for
// 24 hours.
func (l *Lab) Token(subject string, admin bool) (string, error) {
	return l.verifier.Sign(subject, admin, 24*time.Hour)
}

// Operator returns a client of the node or the balancer at a URL.
func (l *Lab) Operator(target string) (*api.Client, error) {
	token, err := l.Token("operator", true)
	if err != nil {
		return nil, err
	}
	server := api.New(target, token)
	return server, server.Fault
}

// KeepLogs saves the logs of all servers and further files in a new directory.
func (l *Lab) KeepLogs(name string, files map[string][]byte) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "flashsale-"+name+"-"); err != nil {
		return "", fmt.Errorf("keep the logs: %w", err)
	}
	all := map[string]*servers.Process{"redis": l.Stores.Redis.Process, "mysql": l.Stores.MySQL.Process}
	maps.Copy(all, l.extra)
	for _, n := range l.Nodes {
		all[n.Name] = n.Process
	}
	var errs []error
	save := func(name string, text []byte) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for name, p := range all {
		log, err := p.Log()
		errs = append(errs, err)
		save(name+".log", log)
	}
	for name, text := range files {
		save(name, text)
	}
	return dir, errors.Join(errs...)
}
