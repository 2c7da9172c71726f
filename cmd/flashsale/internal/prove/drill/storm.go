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

	// Settings of the nodes. They are shorter than serve's defaults, because a round lasts seconds.
	stormLease       = time.Second
	stormDirectAfter = 500 * time.Millisecond
	window           = 3 * time.Second
	buyerLimit       = 2 // units

	// comparison is the interval at which a node compares the stores (serve's default).
	comparison = time.Second
	// deadline is the time after the end of a call in which its script may still take units: one
	// second, as openapi.yaml states, plus the delay of a busy machine.
	deadline = 1200 * time.Millisecond
	// slack is the additional time that a busy machine may need for a promise.
	slack = time.Second
	// roundLength is the length of the longest round.
	roundLength = time.Minute
)

// A storm is a stage for rounds of faults, with the watch's own connection to the database.
type storm struct {
	*stage
	cfg    Config
	db     *sql.DB    // connections of the watch
	dbWire *wire.Wire // the watch's connection to the primary
	http   *http.Client
	disk   *os.File // file on the disk of the stores, to measure whether the disk is busy
	rounds int      // rounds so far, for the names of their sales
}

// once prevents silent retries. Go's transport repeats a request by itself if it finds
// its connection closed, and the judge would not see the first one.
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
	defer func() { lab.CloseOnError(&err, undo) }()
	if s.disk, err = os.Create(filepath.Join(dir, "disk")); err != nil {
		return nil, err
	}
	clock, err := newClock(ctx, dir)
	if err != nil {
		cfg.Progressf("fault redis-clock is left out: %v; install a C compiler (cc) to include it", err)
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
	if via, s.dbWire, err = s.OpenWire(s.Stores.SQL); err != nil {
		return nil, err
	}
	// A connection to a killed server must not block the watch.
	c, err := mysql.ParseDSN(via)
	if err != nil {
		return nil, err
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = time.Second, 2*time.Second, 2*time.Second
	c.ParseTime = true
	c.Logger = &mysql.NopLogger{} // broken connections are expected
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	s.db = sql.OpenDB(connector)
	s.Cleanup(func() error {
		s.http.CloseIdleConnections()
		return s.db.Close()
	})
	// The limiter runs, with limits that no buyer reaches.
	flags := append(lab.ShortTimeouts(stormLease, stormDirectAfter), "--limit-buyer", "10000/s:10000", "--limit-ip", "10000/s:10000")
	err = s.startNodes(ctx, lab.NodeConfig{Strategy: cfg.Strategy, Alive: true}, func(string) []string { return flags })
	return s, err
}

// runStorm runs rounds until the time is over. It ends after the first round that breaks
// a promise, because later failures of a broken service mean little. If something cannot
// be started or ended, the row of that round contains the error.
func runStorm(ctx context.Context, cfg Config, report *Report) (err error) {
	s, err := openStorm(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start the servers: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report.Stores = s.Stores.Versions
	for left, n := cfg.Length, int64(0); left > 0 && report.ExitCode() == 0; n++ {
		length := min(left, roundLength)
		if left -= length; left < roundLength/4 { // a short remainder extends this round
			length, left = length+left, 0
		}
		cfg.Progressf("round %d, seed %d: %v, then %v of storm are left", n+1, cfg.Seed+n, length.Round(time.Second), left.Round(time.Second))
		row, err := s.round(ctx, cfg.Seed+n, length)
		if ctx.Err() != nil { // an interrupted round proves nothing
			return ctx.Err()
		}
		if err != nil { // the servers are in an unknown state; do not run another round
			row.fail(err)
		}
		report.Drills = append(report.Drills, row)
		cfg.Progressf("%s  %s", row.Verdict, row.summary())
	}
	return nil
}
