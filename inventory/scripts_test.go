package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
)

// exercise calls every method of a Gate that runs a script, and checks the results.
func exercise(t *testing.T, g KeeperGate) {
	t.Helper()
	ctx, sku := t.Context(), newSKU()
	install(t, g, sku, 0, truth{
		Terms: terms(10, 9), Available: 8, Buyers: map[string]int64{"zoe": 2},
		Holds: []Hold{{OrderID: "z", Buyer: "zoe", Quantity: 2, AcceptedAt: time.Now()}},
	})
	for i, id := range []string{"a", "b", "c"} {
		reserve(t, g, Request{OrderID: id, SKU: sku, Buyer: "ann", Quantity: 1, Key: fmt.Sprint("k", i), Fingerprint: "p", Node: "n"})
	}
	queue, err := g.ReadQueue(ctx, sku, "", 10)
	check.Must(t, err)
	if len(queue) != 3 {
		t.Fatalf("queue: got %d orders, want 3", len(queue))
	}
	left, err := g.Ack(ctx, sku, queue[:2], []string{"b"})
	check.Must(t, err)
	if left != 1 {
		t.Errorf("queue after the ack: got %d entries left, want only that of c", left)
	}
	if units, err := g.ReleaseHolds(ctx, sku, first, []string{"z", "b"}); err != nil || units != 2 {
		t.Errorf("release of z and b: got %d units, error %v, want 2", units, err)
	}
	check.Must(t, g.DropHolds(ctx, sku, first, []string{"a"}))
	check.Must(t, g.SetTerms(ctx, sku, first, terms(20, 9)))
	if got, h, ok, err := g.FindHold(ctx, "c", "another", sku); err != nil || !ok || got != sku || h.Buyer != "ann" || h.Quantity != 1 || !h.AcceptedAt.Equal(queue[2].AcceptedAt) {
		t.Errorf("hold of order c: got %s %+v, %v, error %v, want ann's hold of 1 unit", got, h, ok, err)
	}
	if tally, err := g.Tally(ctx, sku, []string{"c"}, nil); err != nil || tally.Available != 18 || tally.QueuedUnits() != 1 || !tally.HasHold["c"] {
		t.Errorf("tally of the sale: got %+v, error %v, want 18 available and the hold of c", tally, err)
	}
	if gone, err := g.DeleteSale(ctx, sku, first); err != nil || gone {
		t.Errorf("delete of a sale with a queued order: got %v, error %v, want false and nil", gone, err)
	}
	check.Must(t, g.BeginRebuild(ctx, sku, first))
	view, err := g.Inspect(ctx, sku)
	check.Must(t, err)
	if !view.Exists || view.Open || view.Epoch != 1 || view.Terms.Total != 20 || view.Available != 18 || view.Holds != 1 ||
		len(view.Orders) != 1 || view.Orders[0].OrderID != "c" || view.Orders[0].Quantity != 1 {
		t.Errorf("gate after BeginRebuild: got %+v, want it shut with 18 available, 1 hold and c in the queue", view)
	}
}

// scripts maps the file names of each script to the script.
var scripts = map[string]*redis.Script{
	"replid.lua cooldown.lua reserve.lua": reserveScript, "inspect.lua": inspectScript,
	"epoch.lua cooldown.lua release_units.lua release.lua": releaseScript, "epoch.lua drop_holds.lua": dropScript,
	"cooldown.lua release_units.lua ack.lua": ackScript, "stage.lua": stageScript, "delete_sale.lua": deleteSaleScript,
	"epoch.lua cooldown.lua terms.lua": termsScript, "begin_rebuild.lua": beginRebuildScript, "replid.lua install.lua": installScript,
}

// Every script file is part of a script, and every script runs.
func TestEveryScriptRuns(t *testing.T) {
	var parts []string
	for names, script := range scripts {
		var source strings.Builder
		for name := range strings.FieldsSeq(names) {
			parts = append(parts, name)
			text, err := os.ReadFile(name)
			check.Must(t, err)
			source.Write(text)
		}
		if got := redis.NewScript(source.String()).Hash(); got != script.Hash() {
			t.Errorf("script: its source is not the sum of %s", names)
		}
	}
	slices.Sort(parts)
	files, err := filepath.Glob("*.lua")
	check.Must(t, err)
	if !slices.Equal(files, slices.Compact(parts)) {
		t.Errorf("Lua files: got %v, want those of the scripts: %v", files, slices.Compact(parts))
	}
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		ran := map[string]bool{}
		g := newGate(hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "evalsha") && err == nil {
				ran[args[1].(string)] = true
			}
			return err
		}), patient)
		for _, script := range scripts {
			check.Must(t, script.Load(t.Context(), rdb).Err())
		}
		exercise(t, g)
		for names, script := range scripts {
			if !ran[script.Hash()] {
				t.Errorf("script %s: it has not run, want every script exercised", names)
			}
		}
	})
}

// A restarted Redis has lost all scripts. Each call loads its script again.
func TestScriptsAreLoadedAgain(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		forgotten := 0
		g := newGate(hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if strings.HasPrefix(cmd.Name(), "evalsha") {
				check.Must(t, rdb.ScriptFlush(ctx).Err())
			}
			err := next(ctx, cmd)
			if redis.HasErrorPrefix(err, "NOSCRIPT") {
				forgotten++
			}
			return err
		}), patient)
		exercise(t, g)
		if forgotten < len(scripts) {
			t.Errorf("NOSCRIPT errors: got %d, want at least %d", forgotten, len(scripts))
		}
	})
}

// reserve.lua returns exactly the codes that its header and errors.go list.
// (TestGateMatchesModel covers their meaning.)
func TestOutcomeCodes(t *testing.T) {
	code := regexp.MustCompile(`-\d+\b`)
	header, body := map[string]bool{}, map[string]bool{}
	_, list, _ := strings.Cut(lua("reserve"), "refused:")
	list, _, _ = strings.Cut(list, "100 lower (")
	for _, c := range code.FindAllString(list, -1) {
		header[c] = true
	}
	for line := range strings.Lines(lua("reserve")) {
		line, _, _ = strings.Cut(line, "--")
		for _, c := range regexp.MustCompile(`(?:= |and |or |refuse_all\()(-\d+)\b`).FindAllStringSubmatch(line, -1) {
			body[c[1]] = true
		}
	}
	known := map[string]bool{}
	for c, refusal := range refusals {
		if c <= -100 {
			continue
		}
		ofKnownBuyer := refusals[c-100]
		if ofKnownBuyer == nil || refusal.KnowsBuyer || !ofKnownBuyer.KnowsBuyer || refusal.Reason != ofKnownBuyer.Reason || refusal.Final != (c <= -20) {
			t.Errorf("code %d: got refusal %+v; code %d of a known buyer: got %+v, want the same reason, and known only for the latter",
				c, refusal, c-100, ofKnownBuyer)
		}
		known[strconv.FormatInt(c, 10)] = true
	}
	if len(refusals) != 2*len(known) {
		t.Errorf("refusals: got %d of %d codes, want two for each code", len(refusals), len(known))
	}
	if !maps.Equal(known, body) || !maps.Equal(known, header) {
		t.Errorf("codes of the outcomes: got\n%v in errors.go,\n%v in the script and\n%v in its header, want the same codes", known, body, header)
	}
	for _, odd := range []any{int64(0), int64(-6), int64(-19), int64(-100), nil, 1.5} {
		if _, err := outcome("o", odd); err == nil || errors.As(err, new(*Refusal)) {
			t.Errorf("outcome %v: got error %v, want an error that is not a refusal", odd, err)
		}
	}
}

// All keys of a SKU are in one slot of a cluster.
func TestOneSlot(t *testing.T) {
	for _, key := range []string{
		keys.Sale("S"), keys.Holds("S"), keys.Buyers("S"), keys.Queue("S"), keys.Keys("S"),
		keys.StagedHolds("S", "1-1"), keys.StagedBuyers("S", "1-1"), keys.StagedPieces("S", "1-1"),
	} {
		if _, rest, _ := strings.Cut(key, "{"); !strings.HasPrefix(rest, "S}") {
			t.Errorf("key %s: its hash tag is not the SKU", key)
		}
	}
}
