package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/drill"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/servertest/check"
)

// runStorm runs a storm of 20 seconds with this test binary as the program.
func runStorm(ctx context.Context, t *testing.T, cfg drill.Config) (*drill.Report, error) {
	t.Helper()
	needReal(t)
	cfg.Program, cfg.Strategy, cfg.Names, cfg.Length = os.Args[0], variants.Lua, []string{drill.Storm}, 20*time.Second
	report, err := drill.Run(ctx, cfg)
	skipUnlessInstalled(t, err)
	return report, err
}

// No fault of the storm breaks a promise. The seed changes every day, to cover more faults,
// and a failed test prints it.
func TestStorm(t *testing.T) {
	t.Parallel()
	var progress bytes.Buffer
	report, err := runStorm(t.Context(), t, drill.Config{Config: lab.Config{Progress: &progress}, Seed: int64(time.Now().YearDay()), Keep: true})
	if err != nil {
		t.Fatalf("storm: got error %v, want none; progress:\n%s", err, progress.String())
	}
	row := report.Drills[0]
	if row.Logs != "" {
		t.Cleanup(func() { _ = os.RemoveAll(row.Logs) })
		logs, _ := filepath.Glob(filepath.Join(row.Logs, "node-*.log"))
		for _, name := range logs {
			log, _ := os.ReadFile(name)
			lines := strings.Split(string(log), "\n")
			t.Logf("%s:\n%s", filepath.Base(name), strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	}
	var out bytes.Buffer
	if err := report.WriteText(&out); err != nil {
		t.Errorf("write the report of the storm: got error %v, want none", err)
	}
	t.Log(out.String())
	f := row.Storm
	if report.ExitCode() != 0 || len(report.Drills) != 1 || f.Faults == 0 || row.Orders == 0 || row.Changes == 0 || f.Accepted == 0 || f.Refused == 0 || f.Reads < 20 {
		t.Errorf("storm: got row %+v, faults %+v, want a pass with faults and orders\n%s", row, f, progress.String())
	}
}

// saboteur is the value of asProgram that makes a node exceed the limit per buyer.
const saboteur = "saboteur"

// sabotage adds units to stored orders. Errors are expected, because of the storm's faults.
func sabotage(dsn string) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		panic(err)
	}
	for range time.Tick(100 * time.Millisecond) {
		_, _ = db.Exec("UPDATE orders SET quantity = quantity + 2 WHERE status = 'pending_payment' LIMIT 1")
	}
}

// If nodes exceed the limit per buyer, the storm fails at once, reports the faults and the
// violation, and keeps the logs.
func TestStormFails(t *testing.T) {
	if !inSeparateProcess(t) {
		return
	}
	t.Setenv(asProgram, saboteur)
	t.Setenv("TMPDIR", t.TempDir())
	report, err := runStorm(t.Context(), t, drill.Config{Seed: 1, Keep: true})
	check.Must(t, err)
	var text, raw bytes.Buffer
	if err := errors.Join(report.WriteText(&text), report.WriteJSON(&raw)); err != nil {
		t.Errorf("write the reports of the storm: got error %v, want none", err)
	}
	broken := strings.Join(report.Drills[0].Violations, "\n")
	if report.ExitCode() != 1 || !strings.Contains(broken, "over the limit") || !strings.Contains(text.String(), "--seed 1 ") || !json.Valid(raw.Bytes()) {
		t.Errorf("storm with a fault: got exit status %d, want 1 with the violation, the seed and valid JSON: %s\n%s",
			report.ExitCode(), text.String(), raw.String())
	}
	for _, log := range []string{"node-1.log", "redis.log", "redis-2.log", "mysql.log", "evidence.json"} {
		if b, err := os.ReadFile(filepath.Join(report.Drills[0].Logs, log)); err != nil || len(b) == 0 {
			t.Errorf("kept log %s of the storm: got %d bytes, error %v, want a log", log, len(b), err)
		}
	}
	leaves(t, 1)
}
