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

	"flashsale/cmd/flashsale/internal/prove/gallery"
)

func TestCompareList(t *testing.T) {
	out, _, err := command(t, "compare", "--list")
	noError(t, err)
	for _, name := range gallery.Names() {
		says(t, out, name+"\n")
	}
	refuses(t, []string{"compare", "--rounds", "0", "--rate", "1", "wishful-thinking"}, "rounds", "rate", "wishful-thinking", "get-decr")
}

// One variant, judged and measured by the command as it is.
func TestCompare(t *testing.T) {
	needReal(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	out, progress, err := command(t, "compare", "--rate", "50", "--speed", "200ms", "--callers", "4", "--json", "--report", dir, "no-limit")
	realOnly(t, err)
	noError(t, err)
	var report gallery.Report
	noError(t, json.Unmarshal([]byte(out), &report))
	if len(report.Rows) != 1 || !report.Rows[0].AsExpected() || report.Rows[0].DurablePerS <= 0 || report.Rows[0].P99MS <= 0 {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(progress, "no-limit: judging, round 1 of 1") {
		t.Errorf("progress: %s", progress)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "compare.txt")); err != nil || !strings.Contains(string(page), "no-limit") {
		t.Errorf("page: %v", err)
	}
	leaves(t, 0)
}

// Ctrl-C in the middle of an attack leaves nothing running and no directory.
func TestCompareStops(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := gallery.Config{Names: []string{"flashsale"}, Rounds: 1, Rate: 50, Callers: 4, Speed: time.Second, Progress: stopAt{"judging", cancel}}
	report, err := gallery.Run(ctx, cfg)
	realOnly(t, err)
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Rows) != 0 {
		t.Errorf("stopped with %v: %+v", err, report)
	}
	leaves(t, 0)
}
