package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"flashsale/cmd/flashsale/internal/bench"
	"flashsale/loadtest/servers"
)

func TestBenchList(t *testing.T) {
	out, _, err := command(t, "bench", "--list")
	if err != nil || !strings.Contains(out, "durable ") || !strings.Contains(out, "memory ") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := command(t, "bench", "--rounds", "0", "fastest"); err == nil || !strings.Contains(err.Error(), "rounds") || !strings.Contains(err.Error(), "fastest") {
		t.Errorf("bad usage: %v", err)
	}
}

// tiny runs one benchmark for a second on real servers, with this test binary
// as the program.
func tiny(ctx context.Context, t *testing.T, progress *bytes.Buffer, names ...string) (*bench.Report, error) {
	t.Helper()
	require := os.Getenv("FLASHSALE_TEST_REAL") == "require"
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	if _, err := exec.LookPath("wrk"); err != nil && !require {
		t.Skip(err)
	}
	t.Setenv(asProgram, "1")
	t.Setenv("TMPDIR", t.TempDir())
	r, err := bench.Run(ctx, bench.Config{
		Names: names, Rounds: 1, Seconds: 1, Connections: 8, Program: os.Args[0], Progress: progress,
	})
	if errors.Is(err, servers.ErrNotInstalled) && !require {
		t.Skip(err)
	}
	left, globErr := os.ReadDir(os.TempDir())
	if globErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, globErr)
	}
	return r, err
}

func TestBenchMeasures(t *testing.T) {
	var progress bytes.Buffer
	r, err := tiny(t.Context(), t, &progress, "durable")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	if len(r.Rows) != 1 || row.Ours <= 0 || row.Counterpart <= 0 || row.Ratio <= 0 || row.Met == nil {
		t.Errorf("%+v", r.Rows)
	}
	if r.Machine.CPUTimes && (row.CPU == nil || row.CPU.App <= 0 || row.CPU.Redis == nil || row.CPU.MySQL == nil || row.CounterpartCPU == nil) {
		t.Errorf("CPU times: %+v, %+v", row.CPU, row.CounterpartCPU)
	}
	if !strings.Contains(progress.String(), "round 1 of 1") {
		t.Errorf("progress: %s", &progress)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%v: %s", err, &out)
	}
}

// The lock per order is measured by the same rules, and its node is another
// process with another strategy.
func TestBenchMeasuresTheLockPerOrder(t *testing.T) {
	r, err := tiny(t.Context(), t, new(bytes.Buffer), "lock")
	if err == nil {
		err = r.Err()
	}
	if err != nil || r.Rows[0].Counterpart <= 0 {
		t.Errorf("%v, %+v", err, r)
	}
}

// stopAt cancels when a text is written.
type stopAt struct {
	text   string
	cancel context.CancelFunc
}

func (s stopAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.cancel()
	}
	return len(b), nil
}

// Ctrl-C in the middle leaves nothing running and no directory.
func TestBenchStops(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(asProgram, "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := bench.Run(ctx, bench.Config{
		Names: []string{"keeper"}, Rounds: 100, Seconds: 1, Connections: 8, Program: os.Args[0],
		Progress: stopAt{"keeper:", cancel},
	})
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped with %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
