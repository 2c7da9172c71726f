// Package lab is what the drills, the storm and the benchmarks run on: private
// stores, nodes of this very program in processes of their own, and a balancer in
// front of them.
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

// Config is what every run is told.
type Config struct {
	Program  string    // this program's path, for its nodes
	Progress io.Writer // may be nil

	MySQL servers.MySQLOptions // how the database is started
	Redis servers.RedisOptions // how each Redis is started
}

// talking keeps those who do something side by side from talking at once.
var talking sync.Mutex

// Say writes a line of progress.
func (c Config) Say(format string, args ...any) {
	if c.Progress != nil {
		talking.Lock()
		defer talking.Unlock()
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// Faults are those of the Config alone.
func (c Config) Faults() (f Faults) {
	f.Unless(c.Program != "", "program: no path")
	return f
}

// Faults are what is wrong with a Config.
type Faults []error

// Unless notes a fault.
func (f *Faults) Unless(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Known notes names that there are not.
func (f *Faults) Known(what string, given, all []string) {
	for _, name := range given {
		f.Unless(slices.Contains(all, name), "no %s is called %q: there are %s", what, name, strings.Join(all, ", "))
	}
}

// A Lab is private stores, and what was started beside them.
type Lab struct {
	Config
	Stores *servers.Stores
	Nodes  []*Node

	secret   string
	verifier *auth.Verifier
	redis    servers.RedisOptions
	more     map[string]*servers.Process // further servers, by the names of their logs
	cleanups []func() error
}

// Open starts stores that are as durable as in production.
func Open(ctx context.Context, cfg Config, redisArgs ...string) (*Lab, error) {
	redis := cfg.Redis
	redis.AppendFsync, redis.ExtraArgs = "always", redisArgs
	stores, err := servers.Real(ctx, servers.Options{Redis: redis, MySQL: cfg.MySQL})
	if err != nil {
		return nil, err
	}
	l, err := On(cfg, stores)
	l.redis = redis
	return l, err
}

// On is a lab on stores that run. Its Close closes them.
func On(cfg Config, stores *servers.Stores) (_ *Lab, err error) {
	l := &Lab{Config: cfg, Stores: stores, secret: rand.Text() + rand.Text(), more: map[string]*servers.Process{}}
	l.verifier, err = auth.New(auth.Config{Secret: []byte(l.secret)})
	return l, err
}

// StartRedis starts one more Redis like the first.
func (l *Lab) StartRedis(ctx context.Context, name string) (*servers.Redis, error) {
	r, err := servers.StartRedis(ctx, l.redis)
	if err == nil {
		l.more[name] = r.Process
	}
	return r, err
}

// StartMySQL starts one more MySQL.
func (l *Lab) StartMySQL(ctx context.Context, name string, o servers.MySQLOptions) (*servers.MySQL, error) {
	m, err := servers.StartMySQL(ctx, o)
	if err == nil {
		l.more[name] = m.Process
	}
	return m, err
}

// Cleanup has something done once all servers have ended.
func (l *Lab) Cleanup(do func() error) { l.cleanups = append(l.cleanups, do) }

// Before opens a wire before the server that a URL or a DSN names, until the lab
// is closed. It returns the URL or DSN by way of the wire.
func (l *Lab) Before(url string) (via string, w *wire.Wire, err error) {
	if via, w, err = wire.Before(url); err == nil {
		l.Cleanup(w.Close)
	}
	return via, w, err
}

// Close ends everything, whatever state it is in.
func (l *Lab) Close() error {
	var errs []error
	for _, n := range l.Nodes {
		errs = append(errs, n.Close())
	}
	for _, p := range l.more {
		errs = append(errs, p.Close())
	}
	errs = append(errs, l.Stores.Close())
	for _, do := range l.cleanups {
		errs = append(errs, do())
	}
	return errors.Join(errs...)
}

// Undo is for a defer: where setting up has failed, it closes what there is by then.
func Undo(err *error, closeAll func() error) {
	if *err != nil {
		*err = errors.Join(*err, closeAll())
	}
}

// Token signs for a buyer or, with admin, for an operator: for longer than a run
// takes.
func (l *Lab) Token(subject string, admin bool) (string, error) {
	return l.verifier.Sign(subject, admin, 24*time.Hour)
}

// Operator is a client of the node or the balancer at a URL.
func (l *Lab) Operator(target string) (*api.Client, error) {
	token, err := l.Token("operator", true)
	if err != nil {
		return nil, err
	}
	server := api.New(target, token)
	return server, server.Fault
}

// KeepLogs saves what all servers have written, and further files.
func (l *Lab) KeepLogs(name string, files map[string][]byte) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "flashsale-"+name+"-"); err != nil {
		return "", fmt.Errorf("keep the logs: %w", err)
	}
	all := map[string]*servers.Process{"redis": l.Stores.Redis.Process, "mysql": l.Stores.MySQL.Process}
	maps.Copy(all, l.more)
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
