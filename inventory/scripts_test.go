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

// exercise calls everything a Gate can do, and fails where one thing does not
// come out as it must.
func exercise(t *testing.T, g Keeping) {
	t.Helper()
	ctx, sku := t.Context(), newSKU()
	install(t, g, sku, 0, truth{
		Terms: terms(10, 9), Available: 8, Buyers: map[string]int64{"zoe": 2},
		Holds: []Hold{{OrderID: "z", Buyer: "zoe", Quantity: 2, At: time.Now()}},
	})
	for i, id := range []string{"a", "b", "c"} {
		reserve(t, g, Request{OrderID: id, SKU: sku, Buyer: "ann", Quantity: 1, Key: fmt.Sprint("k", i), Fingerprint: "p", Node: "n"})
	}
	queue, err := g.Queue(ctx, sku, "", 10)
	check.Must(t, err)
	if len(queue) != 3 {
		t.Fatalf("%d queued", len(queue))
	}
	left, err := g.Ack(ctx, sku, queue[:2], []string{"b"})
	check.Must(t, err)
	if left != 1 {
		t.Errorf("%d entries left, want that of c", left)
	}
	if units, err := g.Release(ctx, sku, first, []string{"z", "b"}); err != nil || units != 2 {
		t.Errorf("released %d, %v", units, err)
	}
	check.Must(t, g.Confirm(ctx, sku, first, []string{"a"}))
	check.Must(t, g.SetTerms(ctx, sku, first, terms(20, 9)))
	if got, h, ok, err := g.Held(ctx, "c", "another", sku); err != nil || !ok || got != sku || h.Buyer != "ann" || h.Quantity != 1 || !h.At.Equal(queue[2].At) {
		t.Errorf("held: %s %+v %v %v", got, h, ok, err)
	}
	if tally, err := g.Tally(ctx, sku, []string{"c"}, nil); err != nil || tally.Available != 18 || tally.QueuedUnits() != 1 || !tally.Held["c"] {
		t.Errorf("%+v, %v", tally, err)
	}
	if gone, err := g.DeleteSale(ctx, sku, first); err != nil || gone {
		t.Errorf("a gate with an order in its queue is forgotten: %v, %v", gone, err)
	}
	check.Must(t, g.BeginRebuild(ctx, sku, first))
	view, err := g.Inspect(ctx, sku)
	check.Must(t, err)
	if !view.Exists || view.Open || view.Epoch != 1 || view.Terms.Total != 20 || view.Available != 18 || view.Holds != 1 ||
		len(view.Orders) != 1 || view.Orders[0].OrderID != "c" || view.Orders[0].Quantity != 1 {
		t.Errorf("%+v", view)
	}
}

// scripts is every script by the names of the files it is made of.
var scripts = map[string]*redis.Script{
	"replid.lua cooldown.lua reserve.lua": reserveScript, "inspect.lua": inspectScript,
	"epoch.lua cooldown.lua release_units.lua release.lua": releaseScript, "epoch.lua confirm.lua": confirmScript,
	"cooldown.lua release_units.lua ack.lua": ackScript, "stage.lua": stageScript, "delete_sale.lua": deleteSaleScript,
	"epoch.lua cooldown.lua terms.lua": termsScript, "begin_rebuild.lua": beginRebuildScript, "replid.lua install.lua": installScript,
}

// No script is written and never run.
func TestEveryScriptRuns(t *testing.T) {
	var made []string
	for names, script := range scripts {
		var source strings.Builder
		for name := range strings.FieldsSeq(names) {
			made = append(made, name)
			text, err := os.ReadFile(name)
			check.Must(t, err)
			source.Write(text)
		}
		if got := redis.NewScript(source.String()).Hash(); got != script.Hash() {
			t.Errorf("the script is not made of %s", names)
		}
	}
	slices.Sort(made)
	files, err := filepath.Glob("*.lua")
	check.Must(t, err)
	if !slices.Equal(files, slices.Compact(made)) {
		t.Errorf("files %v, scripts of %v", files, slices.Compact(made))
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
				t.Errorf("%s has not been run", names)
			}
		}
	})
}

// A Redis that has been restarted knows no scripts, at any moment.
func TestScriptsForgotten(t *testing.T) {
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
			t.Errorf("NOSCRIPT %d times over %d scripts", forgotten, len(scripts))
		}
	})
}

// The codes that reserve.lua can answer are those that its header explains
// and errors.go knows. (What each is for: TestGateIsTheModel.)
func TestCodes(t *testing.T) {
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
	for c, no := range refusals {
		if c <= -100 {
			continue
		}
		knows := refusals[c-100]
		if knows == nil || no.Known || !knows.Known || no.Reason != knows.Reason || no.Final != (c <= -20) {
			t.Errorf("%d: %+v; %d: %+v", c, no, c-100, knows)
		}
		known[strconv.FormatInt(c, 10)] = true
	}
	if len(refusals) != 2*len(known) {
		t.Errorf("%d codes", len(refusals))
	}
	if !maps.Equal(known, body) || !maps.Equal(known, header) {
		t.Errorf("errors.go %v\nscript    %v\nheader    %v", known, body, header)
	}
	for _, odd := range []any{int64(0), int64(-6), int64(-19), int64(-100), nil, 1.5} {
		if _, err := outcome("o", odd); err == nil || errors.As(err, new(*Refusal)) {
			t.Errorf("%v: %v", odd, err)
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
			t.Errorf("%s: its tag is not the SKU", key)
		}
	}
}
