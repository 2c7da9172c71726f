package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/drill"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

func TestDrillList(t *testing.T) {
	out, _, err := command(t, "drill", "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range drill.Names() {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("%s is not listed:\n%s", name, out)
		}
	}
	_, _, err = command(t, "drill", "--rate", "1", "earthquake")
	for _, want := range []string{"rate", "earthquake", "node-killed", "clock-offset"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bad usage: %v, want a word of %q", err, want)
		}
	}
}

// drills runs drills with this test binary as the program. They leave nothing
// behind but what they were asked to keep.
func drills(ctx context.Context, t *testing.T, cfg drill.Config) (*drill.Report, error) {
	t.Helper()
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	cfg.Seed, cfg.Rate, cfg.Program = 1, 150, os.Args[0]
	if cfg.Strategy == "" {
		cfg.Strategy = "lua"
	}
	report, err := drill.Run(ctx, cfg)
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	return report, err
}

// short are the drills whose harm is done and mended within five seconds; the
// others wait for leases to end.
var short = map[string]bool{
	"node-stopped": true, "clock-offset": true, "redis-latency": true,
	"keeper-dies-restoring": true, "paid-at-expiry": true, "redis-invents": true,
}

// The failure table: each row is carried out, and no promise is broken.
func TestDrills(t *testing.T) {
	t.Setenv(asProgram, "1")
	for _, name := range drill.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack := 8 * time.Second
			if short[name] {
				attack = 5 * time.Second
			}
			if servertest.Race { // selling begins late, and what is done to it takes longer
				attack += attack / 2
			}
			report, err := drills(t.Context(), t, drill.Config{Names: []string{name}, Duration: attack})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := report.WriteText(&out); err != nil {
				t.Error(err)
			}
			t.Log(out.String())
			row := report.Drills[0]
			if report.ExitCode() != 0 || row.Verdict != "PASS" || row.Orders == 0 || len(row.Done) == 0 || row.LongestGapMS <= 0 {
				t.Errorf("%+v", row)
			}
		})
	}
}

// A drill can fail: nodes whose gate counts no buyer's units break a promise,
// and the logs of it are kept.
func TestDrillFails(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("TMPDIR", t.TempDir())
	report, err := drills(t.Context(), t, drill.Config{
		Names: []string{"node-stopped"}, Duration: 5 * time.Second, Strategy: "no-limit", Keep: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	row := report.Drills[0]
	if report.ExitCode() != 1 || row.Verdict != "FAIL" || !strings.Contains(strings.Join(row.Violations, "\n"), "over_limit") {
		t.Errorf("%+v", row)
	}
	for _, log := range []string{"node-1.log", "redis.log", "mysql.log", "verdict.txt"} {
		if b, err := os.ReadFile(row.Logs + "/" + log); err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", log, len(b), err)
		}
	}
	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"verdict":"FAIL"`) {
		t.Errorf("%v: %s", err, &out)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Ctrl-C in the middle of the harm leaves nothing running and no directory.
func TestDrillStops(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := drills(ctx, t, drill.Config{
		Names: []string{"redis-emptied"}, Duration: 10 * time.Second, Keep: true, Progress: stopAt{"Redis killed", cancel},
	})
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Drills) != 0 {
		t.Errorf("stopped with %v: %+v", err, report)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
