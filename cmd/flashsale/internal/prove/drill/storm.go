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
	skuCount   = 3
	buyerCount = 24

	// The nodes' settings, shorter than serve's defaults: a round lasts seconds.
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
	// roundLength is the longest round.
	roundLength = time.Minute
)

// A storm is a stage for rounds of faults, and the watch's own look at the database.
type storm struct {
	*stage
	cfg    Config
	db     *sql.DB    // connections of the watch
	dbWire *wire.Wire // the watch's way to the primary
	http   *http.Client
	disk   *os.File // on the stores' disk, to see how quick that is
	rounds int      // so far, for the names of their sales
}

// once sends each request once: Go's transport would repeat one by itself, unseen,
// where a connection turns out to be closed.
type once struct{ *http.Transport }

func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	alone := *r
	alone.GetBody = nil
	return o.Transport.RoundTrip(&alone)
}

func openStorm(ctx context.Context, cfg Config) (s *storm, err error) {
	s = &storm{cfg: cfg, http: &http.Client{Timeout: callTimeout, Transport: once{&http.Transport{
		MaxIdleConnsPerHost: 2 * buyerCount, IdleConnTimeout: 10 * time.Second,
	}}}}
	dir, err := os.MkdirTemp("", "flashsale-storm-")
	if err != nil {
		return nil, err
	}
	undo := func() error { return os.RemoveAll(dir) }
	defer func() { lab.Undo(&err, undo) }()
	if s.disk, err = os.Create(filepath.Join(dir, "disk")); err != nil {
		return nil, err
	}
	clock, err := newClock(ctx, dir)
	if err != nil {
		cfg.Say("fault redis-clock is left out: %v", err)
	} else {
		cfg.Redis.Env = clock.env
	}
	cfg.MySQL.ExtraArgs = append(cfg.MySQL.ExtraArgs, servers.LogReplicated)
	if s.stage, err = openStage(ctx, cfg.Config); err != nil {
		return nil, err
	}
	undo = s.Close
	s.Cleanup(func() error { return errors.Join(s.disk.Close(), os.RemoveAll(dir)) })
	if s.clock = clock; clock != nil {
		s.Cleanup(clock.file.Close)
	}
	if s.redises[1], err = s.StartRedis(ctx, "redis-2"); err != nil {
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
	s.Cleanup(func() error {
		s.http.CloseIdleConnections()
		return s.db.Close()
	})
	// The limiter is asked, and refuses nobody.
	flags := append(lab.Brief(stormLease, stormDirectAfter), "--limit-buyer", "10000/s:10000", "--limit-ip", "10000/s:10000")
	err = s.startNodes(ctx, lab.NodeConfig{Strategy: cfg.Strategy, Alive: true}, func(string) []string { return flags })
	return s, err
}

// runStorm lets the storm blow. It ends with the first round that breaks a promise, as
// a service that is broken once explains little of what comes after. What could not be
// started or mended is in the row of its round.
func runStorm(ctx context.Context, cfg Config, report *Report) (err error) {
	s, err := openStorm(ctx, cfg)
	if err != nil {
		return fmt.Errorf("set the stage: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report.Stores = s.Stores.Versions
	for left, n := cfg.Length, int64(0); left > 0 && report.ExitCode() == 0; n++ {
		length := min(left, roundLength)
		if left -= length; left < roundLength/4 { // no round that is too short for a fault
			length, left = length+left, 0
		}
		cfg.Say("round %d, seed %d: %v, then %v of storm are left", n+1, cfg.Seed+n, length.Round(time.Second), left.Round(time.Second))
		row, err := s.round(ctx, cfg.Seed+n, length)
		if ctx.Err() != nil { // what was seen so far proves nothing
			return ctx.Err()
		}
		if err != nil { // the servers are in an unknown state
			row.fail(err)
		}
		report.Drills = append(report.Drills, row)
		cfg.Say("%s  %s", row.Verdict, row.summary())
	}
	return nil
}
