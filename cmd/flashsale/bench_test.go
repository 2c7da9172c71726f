package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"flashsale/cmd/flashsale/internal/prove/bench"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/servertest/check"
)

func TestBenchList(t *testing.T) {
	out, _, err := command(t, "bench", "--list")
	if err != nil || !strings.Contains(out, "durable ") || !strings.Contains(out, "rebuild ") {
		t.Errorf("flashsale bench --list: got error %v, want the list of benchmarks\n%s", err, out)
	}
	refuses(t, []string{"bench", "--rounds", "0", "fastest"}, "rounds", "fastest")
}

// runBench runs benchmarks for a second on real servers, with this test binary as the program.
func runBench(ctx context.Context, t *testing.T, progress *bytes.Buffer, names ...string) (*bench.Report, error) {
	t.Helper()
	require := os.Getenv("FLASHSALE_TEST_REAL") == "require"
	needReal(t)
	if _, err := exec.LookPath("wrk"); err != nil && !require {
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	r, err := bench.Run(ctx, bench.Config{
		Config: lab.Config{Program: os.Args[0], Progress: progress}, Names: names, Rounds: 1, Seconds: 1, Connections: 8,
	})
	skipUnlessInstalled(t, err)
	leaves(t, 0)
	return r, err
}

func TestBenchMeasures(t *testing.T) {
	if !inSeparateProcess(t) {
		return
	}
	var progress bytes.Buffer
	r, err := runBench(t.Context(), t, &progress, "durable")
	check.Must(t, err)
	check.Must(t, r.Err())
	if len(r.Rows) != 2 {
		t.Fatalf("flashsale bench: got rows %+v, want 2 rows", r.Rows)
	}
	for _, row := range r.Rows {
		if row.Ours <= 0 || row.Counterpart <= 0 || row.Ratio <= 0 || row.Met == nil {
			t.Errorf("row of the benchmark: got %+v, want two measurements, a ratio and a target", row)
		}
	}
	row := r.Rows[0]
	if r.Machine.CPUTimes && (row.CPU == nil || row.CPU.App <= 0 || row.CPU.Redis == nil || row.CPU.MySQL == nil || row.CounterpartCPU == nil) {
		t.Errorf("CPU times of the row: got %+v and %+v for the counterpart, want times of app, Redis and MySQL", row.CPU, row.CounterpartCPU)
	}
	if !strings.Contains(progress.String(), "round 1 of 1") {
		t.Errorf("progress of the benchmark: got %q, want a line with \"round 1 of 1\"", &progress)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("JSON of the benchmark: got error %v, want valid JSON: %s", err, &out)
	}
}
