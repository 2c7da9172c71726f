package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"

	"golang.org/x/sync/errgroup"
)

func TestCompareList(t *testing.T) {
	out, _, err := command(t, "compare", "--list")
	check.Must(t, err)
	for _, name := range gallery.Names() {
		contains(t, out, name+"\n")
	}
	refuses(t, []string{"compare", "--rounds", "0", "--rate", "1", "wishful-thinking"}, "rounds", "rate", "wishful-thinking", "get-decr")
}

// judgement is how tests have variants judged, with this test binary as the program.
func judgement(c gallery.Config) gallery.Config {
	c.Rounds, c.Rate, c.Seed, c.Program, c.Search = 1, 60, 1, os.Args[0], 100*time.Millisecond
	c.InFlight, c.Patience, c.Repair = 16, patience, patience
	return c
}

// onEmbedded are judged on the embedded stores as well, one for each way to go
// wrong that does not need a slow database or row locks.
var onEmbedded = []string{"quantity-ignored", "leak-on-restore", "flashsale"}

// Every broken variant is caught by its own violation, and every right one
// passes the very same attack and harm.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, first *servers.Stores) {
		// Much of a judgement is waiting: so many side by side keep two cores busy.
		var judging errgroup.Group
		judging.SetLimit(12)
		for _, v := range slices.Backward(gallery.All()) { // the right variants first, because they take longest
			if first.Kind == servers.KindEmbedded && !slices.Contains(onEmbedded, v.Name) {
				continue
			}
			for _, act := range actsOf(v) {
				judging.Go(func() error {
					cfg, row := judgement(gallery.Config{Acts: []string{act}}), gallery.NewRow(v)
					if v.Broken() {
						cfg.Repair = time.Millisecond // this variant repairs no drift
					}
					gallery.Judge(t.Context(), cfg, servertest.Open(t, first.Kind), &row)
					t.Logf("%s, %s, seed %d: %s", v.Name, act, cfg.Seed, row.Said())
					if !row.AsExpected() {
						t.Errorf("%s, %s: want %q, got %s\n%s%s", v.Name, act, v.Caught, row.Said(), row.Error, strings.Join(row.Details, "\n"))
					}
					return nil
				})
			}
		}
		_ = judging.Wait()
	})
}

// actsOf returns the acts that v plays: for a right variant, the acts that it passes, and
// for a broken variant, the act that it fails.
func actsOf(v variants.Variant) []string {
	switch {
	case !v.Broken():
		return []string{"crashes", "rush"}
	case v.Name == "leak-on-restore" || v.Name == "marker-first" || v.Name == "unguarded-close":
		return []string{"crashes"}
	}
	return []string{"rush"}
}

// One variant, judged as the command does it.
func TestCompare(t *testing.T) {
	if !apart(t) {
		return
	}
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	var progress strings.Builder
	cfg := judgement(gallery.Config{Names: []string{"no-limit"}})
	cfg.Progress = &progress
	report, err := gallery.Run(t.Context(), cfg)
	realOnly(t, err)
	check.Must(t, err)
	if len(report.Rows) != 1 || !report.Rows[0].AsExpected() {
		t.Errorf("%+v", report)
	}
	contains(t, progress.String(), "no-limit: judging, round 1 of 1")
	leaves(t, 0)
}
