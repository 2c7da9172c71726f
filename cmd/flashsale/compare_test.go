package main

import (
	"context"
	"errors"
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
		says(t, out, name+"\n")
	}
	refuses(t, []string{"compare", "--rounds", "0", "--rate", "1", "wishful-thinking"}, "rounds", "rate", "wishful-thinking", "get-decr")
}

// judgement is how tests have variants judged, with this test binary as the program.
func judgement(c gallery.Config) gallery.Config {
	c.Rounds, c.Rate, c.Seed, c.Program, c.Search = 1, 60, 1, os.Args[0], 100*time.Millisecond
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
		if servertest.Race { // a judgement works more under the detector, and its clients may give up
			judging.SetLimit(4)
		}
		for _, v := range slices.Backward(gallery.All()) { // the right ones first: they are judged by two acts, and take longest
			if first.Kind == servers.KindEmbedded && !slices.Contains(onEmbedded, v.Name) {
				continue
			}
			judging.Go(func() error {
				row := judged(t, first.Kind, v)
				for again := 2; again > 0 && row.Failed+row.Passed == 0; again-- { // the machine was too busy for a verdict
					t.Logf("%s: %s, once more: %s%s", v.Name, row.Said(), row.Error, strings.Join(row.Details, "\n"))
					row = judged(t, first.Kind, v)
				}
				t.Logf("%s: %s", v.Name, row.Said())
				if !row.AsExpected() {
					t.Errorf("%s: want %q, got %s\n%s%s", v.Name, v.Caught, row.Said(), row.Error, strings.Join(row.Details, "\n"))
				}
				return nil
			})
		}
		_ = judging.Wait()
	})
}

// judged judges a variant on empty stores.
func judged(t *testing.T, kind string, v variants.Variant) gallery.Row {
	cfg := judgement(gallery.Config{})
	if v.Broken() { // the act that it does not get through
		cfg.Acts = []string{"rush"}
		if v.Name == "leak-on-restore" || v.Name == "marker-first" || v.Name == "unguarded-close" {
			cfg.Acts = []string{"crashes"}
		}
	}
	row := gallery.NewRow(v)
	gallery.Judge(t.Context(), cfg, servertest.Open(t, kind), &row)
	return row
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
	says(t, progress.String(), "no-limit: judging, round 1 of 1")
	leaves(t, 0)
}

// Ctrl-C in the middle of an attack leaves nothing running and no directory.
func TestCompareStops(t *testing.T) {
	if !apart(t) {
		return
	}
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := judgement(gallery.Config{Names: []string{"flashsale"}})
	cfg.Progress = stopAt{"judging", cancel}
	report, err := gallery.Run(ctx, cfg)
	realOnly(t, err)
	if !errors.Is(err, context.Canceled) || report == nil || len(report.Rows) != 0 {
		t.Errorf("stopped with %v: %+v", err, report)
	}
	leaves(t, 0)
}
