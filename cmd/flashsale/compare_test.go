package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/gallery"
	"flashsale/loadtest/servers"
)

func TestCompareList(t *testing.T) {
	out, _, err := command(t, "compare", "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range gallery.Names() {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("%s is not listed:\n%s", name, out)
		}
	}
	_, _, err = command(t, "compare", "--rounds", "0", "--rate", "1", "wishful-thinking")
	for _, want := range []string{"rounds", "rate", "wishful-thinking", "get-then-decr"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("bad usage: %v, want a word of %q", err, want)
		}
	}
}

func realOnly(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
}

// One variant, judged and measured by the command as it is.
func TestCompare(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	out, progress, err := command(t, "compare", "--rate", "50", "--speed", "200ms", "--callers", "4", "--json", "--report", dir, "no-limit")
	realOnly(t, err)
	if err != nil {
		t.Fatal(err)
	}
	var report gallery.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 1 || !report.Rows[0].AsExpected() || report.Rows[0].DurablePerS <= 0 || report.Rows[0].P99MS <= 0 {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(progress, "no-limit: judging, round 1 of 1") {
		t.Errorf("progress: %s", progress)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "compare.html")); err != nil || !strings.Contains(string(page), "no-limit") {
		t.Errorf("page: %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Ctrl-C in the middle of an attack leaves nothing running and no directory.
func TestCompareStops(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := gallery.Config{Names: []string{"flashsale"}, Rounds: 1, Rate: 50, Callers: 4, Speed: time.Second, Progress: stopAt{"judging", cancel}}
	report, err := gallery.Run(ctx, cfg)
	realOnly(t, err)
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Rows) != 0 {
		t.Errorf("stopped with %v: %+v", err, report)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
