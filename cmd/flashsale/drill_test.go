package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/drill"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func TestDrillList(t *testing.T) {
	out, _, err := command(t, "drill", "--list")
	check.Must(t, err)
	for _, name := range append(drill.Names(), drill.ByName()...) {
		contains(t, out, name+"\n")
	}
	contains(t, out, "storm (by itself", "  commit-silent ")
	refuses(t, []string{"drill", "group-failover"}, "needs MySQL 9, see --mysqld")
	refuses(t, []string{"drill", "--rate", "1", "--strategy", "magic", "earthquake"},
		"rate", "earthquake", "node-killed", "clock-offset", "magic", "lock-per-order")
	refuses(t, []string{"drill", "storm", "node-killed"}, "by itself")
	refuses(t, []string{"drill", "storm", "--strategy", "no-limit"}, "needs a keeper")
	refuses(t, []string{"drill", "storm", "--minutes", "0.01"}, "--minutes: 600ms, want")
	refuses(t, []string{"drill", "storm", "--faults", "earthquake"}, "commit-silent")
}

// drills runs drills with this test binary as the program.
func drills(ctx context.Context, t *testing.T, cfg drill.Config) (*drill.Report, error) {
	t.Helper()
	needReal(t)
	// On a busy machine, the attack is slower than its rate instead of being refused.
	cfg.Seed, cfg.Rate, cfg.InFlight, cfg.Program = 1, 150, 32, os.Args[0]
	if cfg.Strategy == "" {
		cfg.Strategy = variants.Lua
	}
	report, err := drill.Run(ctx, cfg)
	skipUnlessInstalled(t, err)
	return report, err
}

// short lists the drills whose faults begin and end within five seconds. Other drills wait
// for leases to expire.
var short = map[string]bool{
	"node-stopped": true, "clock-offset": true, "redis-latency": true,
	"keeper-dies-restoring": true, "paid-at-expiry": true, "redis-invents": true,
}

// Each row of the failure table is a drill, and no drill finds a violation.
func TestDrills(t *testing.T) {
	t.Parallel()
	atOnce := 16
	if servertest.Race { // each drill runs five processes, and needs enough of the machine to sell out
		atOnce = 2
	}
	turns := make(chan struct{}, atOnce)
	for _, name := range drill.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			attack := 8 * time.Second
			if short[name] {
				attack = 5 * time.Second
			}
			if servertest.Race { // everything is slower under the race detector
				attack += attack / 2
			}
			row, code := runDrill(t, name, attack)
			for attempts := 2; attempts > 0 && code == judge.ExitUnjudged; attempts-- { // the machine was too busy for a verdict
				attack += attack / 2
				row, code = runDrill(t, name, attack)
			}
			if code != judge.ExitPass || row.Verdict != "PASS" || row.Orders == 0 || row.Changes == 0 || len(row.Done) == 0 || row.LongestGapMS <= 0 {
				t.Errorf("drill: got row %+v, want verdict PASS with orders, done steps and a measured gap", row)
			}
		})
	}
}

// Drills in which a database fails over find no violation. If the primary does not wait for
// its replica, the same drills find a lost acceptance.
func TestFailoverDrills(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_FAILOVER") == "" {
		t.Skip("takes minutes: FLASHSALE_TEST_FAILOVER=1")
	}
	for _, c := range []struct {
		name         string
		attack       time.Duration
		asynchronous bool
		want         string // among the violations
	}{
		{"mysql-failover", 10 * time.Second, false, ""},
		{"mysql-failover", 10 * time.Second, true, "lost: "},
		{"mysql-paused", 10 * time.Second, false, ""},
		{"mysql-paused", 10 * time.Second, true, "the old primary confirmed a write that nobody else has"},
		{"group-failover", 40 * time.Second, false, ""},
	} {
		t.Run(fmt.Sprint(c.name, " asynchronous ", c.asynchronous), func(t *testing.T) {
			folder := os.Getenv("FLASHSALE_TEST_MYSQL9")
			if c.name == "group-failover" && folder == "" {
				t.Skip("FLASHSALE_TEST_MYSQL9 names no folder with the mysqld of MySQL 9")
			}
			report, err := drills(t.Context(), t, drill.Config{Names: []string{c.name}, Duration: c.attack, Asynchronous: c.asynchronous, MySQLFolder: folder})
			check.Must(t, err)
			row := report.Drills[0]
			violations := strings.Join(row.Violations, "\n")
			if pass := c.want == ""; pass != (row.Verdict == "PASS") || !strings.Contains(violations, c.want) || row.Error != "" || row.LongestGapMS <= 0 {
				t.Errorf("failover drill: got row %+v, want the expected verdict, no error and a measured gap", row)
			}
		})
	}
}

func runDrill(t *testing.T, name string, attack time.Duration) (drill.Row, int) {
	t.Helper()
	report, err := drills(t.Context(), t, drill.Config{Names: []string{name}, Duration: attack})
	check.Must(t, err)
	var out bytes.Buffer
	check.Must(t, report.WriteText(&out))
	t.Log(out.String())
	return report.Drills[0], report.ExitCode()
}

// Nodes without a limit per buyer fail a drill, and the logs of the drill are kept. A drill
// that needs a keeper is not judged.
func TestDrillFails(t *testing.T) {
	if !inSeparateProcess(t) {
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	report, err := drills(t.Context(), t, drill.Config{
		Names: []string{"node-stopped", "keeper-paused"}, Duration: 5 * time.Second, Strategy: "no-limit", Keep: true,
	})
	check.Must(t, err)
	if row := report.Drills[1]; row.Verdict != "NOT JUDGED" || !strings.Contains(row.Violations[0], "needs a keeper") {
		t.Errorf("drill without a keeper: got row %+v, want verdict NOT JUDGED because the drill needs a keeper", row)
	}
	row := report.Drills[0]
	if report.ExitCode() != 1 || row.Verdict != "FAIL" || !strings.Contains(strings.Join(row.Violations, "\n"), "over_limit") {
		t.Errorf("drill with a violation: got row %+v, want exit status 1, verdict FAIL and over_limit", row)
	}
	for _, log := range []string{"node-1.log", "redis.log", "mysql.log", "verdict.txt"} {
		if b, err := os.ReadFile(row.Logs + "/" + log); err != nil || len(b) == 0 {
			t.Errorf("kept log %s: got %d bytes, error %v, want a log", log, len(b), err)
		}
	}
	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"verdict": "FAIL"`) {
		t.Errorf("JSON report of the drills: got error %v, want valid JSON with the verdict FAIL: %s", err, &out)
	}
	leaves(t, 1)
}

// Settings for the user's server do not reach the nodes of a drill. Settings for the test
// servers do.
func TestCleanEnvironment(t *testing.T) {
	t.Setenv("FLASHSALE_LIMIT_BUYER", "1/m")
	t.Setenv("FLASHSALE_TEST_TIDB", "tidb-server")
	check.Must(t, cleanEnvironment())
	if limit, tidb := os.Getenv("FLASHSALE_LIMIT_BUYER"), os.Getenv("FLASHSALE_TEST_TIDB"); limit != "" || tidb != "tidb-server" {
		t.Errorf("environment after cleanEnvironment: got limit %q and TiDB %q, want an empty limit and tidb-server", limit, tidb)
	}
}
