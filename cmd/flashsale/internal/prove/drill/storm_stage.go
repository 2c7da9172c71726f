package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

const (
	nodeCount  = 3
	skuCount   = 3
	buyerCount = 24

	// The nodes' settings, shorter than serve's defaults: an act lasts seconds.
	stormLease       = time.Second
	stormDirectAfter = 500 * time.Millisecond
	window           = 3 * time.Second
	buyerLimit       = 2 // units

	// comparison is how often a node compares the stores (serve's default).
	comparison = time.Second
	// deadline is how long after its call has ended a script may still take
	// units: a second, as openapi.yaml states it, and what a busy machine adds.
	deadline = 1200 * time.Millisecond
	// slack is what a busy machine adds to a promise in seconds.
	slack = time.Second
	// actLength is the longest act.
	actLength = time.Minute
)

// StormConfig of a storm. Its seed is that of the first act; the next one has the next
// number.
type StormConfig struct {
	lab.Harm
	Duration time.Duration // of all acts together, without the time they take to settle
	Faults   []string      // names of those to draw from; none means all
}

// A stage is what the storm blows over: a lab whose nodes have a wire each to each
// store.
type storm struct {
	*lab.Lab
	cfg     StormConfig
	redises [2]*servers.Redis // the nodes are led to one of them
	active  int               // index of that one
	clock   *clock            // clock of both Redis servers; nil without a C compiler
	mysqls  [2]*servers.MySQL // the second is nil until it is needed
	primary int               // index of the current primary
	relay   *wire.Wire        // the replica's way to the primary
	db      *sql.DB           // connections of the watch
	dbWire  *wire.Wire        // the watch's way to the primary
	http    *http.Client
	disk    *os.File // on the stores' disk, to see how quick that is
	acts    int      // so far, for the names of their sales
}

// once sends each request once: Go's transport would repeat one by itself, unseen,
// where a connection turns out to be closed.
type once struct{ *http.Transport }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	alone := *r
	alone.GetBody = nil
	return o.Transport.RoundTrip(&alone)
}

func openStorm(ctx context.Context, cfg StormConfig) (_ *storm, err error) {
	s := &storm{cfg: cfg, http: &http.Client{Timeout: callTimeout, Transport: once{&http.Transport{
		MaxIdleConnsPerHost: 2 * buyerCount, IdleConnTimeout: 10 * time.Second,
	}}}}
	dir, err := os.MkdirTemp("", "flashsale-storm-")
	if err != nil {
		return nil, err
	}
	defer lab.Undo(&err, func() error { return os.RemoveAll(dir) })
	if s.disk, err = os.Create(filepath.Join(dir, "disk")); err != nil {
		return nil, err
	}
	if s.clock, err = newClock(ctx, dir); err != nil {
		cfg.Say("fault redis-clock is left out: %v", err)
	} else {
		cfg.Redis.Env = s.clock.env
	}
	cfg.MySQL.ExtraArgs = append(cfg.MySQL.ExtraArgs, servers.LogReplicated)
	if s.Lab, err = lab.Open(ctx, cfg.Config, "--repl-diskless-sync-delay", "0"); err != nil {
		return nil, err
	}
	s.Cleanup(func() error { return errors.Join(s.disk.Close(), os.RemoveAll(dir)) })
	if s.clock != nil {
		s.Cleanup(s.clock.file.Close)
	}
	defer lab.Undo(&err, s.close)
	s.redises[0], s.mysqls[0] = s.Stores.Redis, s.Stores.MySQL
	if s.redises[1], err = s.StartRedis(ctx, "redis-2"); err != nil {
		return nil, err
	}
	if _, s.relay, err = s.Before(s.Stores.SQL); err != nil {
		return nil, err
	}
	via := ""
	if via, s.dbWire, err = s.Before(s.Stores.SQL); err != nil {
		return nil, err
	}
	// A connection that a killed server leaves behind must not hold up the watch.
	c, err := mysql.ParseDSN(via)
	if err != nil {
		return nil, err
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = time.Second, 2*time.Second, 2*time.Second
	c.ParseTime = true
	c.Logger = &mysql.NopLogger{} // broken connections are no news
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	s.db = sql.OpenDB(connector)
	for i := range nodeCount {
		_, err := s.Start(ctx, lab.NodeConfig{
			Name: fmt.Sprint("node-", i+1), Strategy: cfg.Strategy, Wires: true, Alive: true,
			// The limiter is asked, and refuses nobody.
			Flags: append(lab.Brief(stormLease, stormDirectAfter), "--limit-buyer", "10000/s:10000", "--limit-ip", "10000/s:10000"),
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close ends everything, whatever state it is in.
func (s *storm) close() error {
	s.http.CloseIdleConnections()
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.Lab.Close())
}
