package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"flashsale/inventory/internal/keys"
	"flashsale/loadtest/servers/servertest/check"
)

// The gate takes random steps together with its model. Every answer must be the same, and
// so must the whole content of Redis after every step.
func TestGateMatchesModel(t *testing.T) {
	for _, entry := range []int{fullEntry, smallEntry} {
		t.Run(fmt.Sprint("entries of ", entry), func(t *testing.T) {
			entriesOf(t, entry)
			onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) { gateMatchesModel(rt, rdb, entry) })
			})
		})
	}
}

func gateMatchesModel(rt *rapid.T, rdb *redis.Client, entry int) {
	const bound = 6
	w := &walk{T: rt, rdb: rdb, sku: newSKU(), model: newModel(bound, entry)}
	for range 2 {
		w.nodes = append(w.nodes, newGate(rdb, Config{Timeout: time.Minute, QueueLimit: bound}))
	}
	w.install(0, 1, truth{Terms: w.someTerms(), Available: 0, Buyers: map[string]int64{}}.full())
	rt.Repeat(map[string]func(*rapid.T){
		"":        func(*rapid.T) { w.check() },
		"reserve": func(*rapid.T) { w.reserveSome() },
		// Half of the steps are reservations, because most other steps need an order.
		"reserve more": func(*rapid.T) { w.reserveSome() },
		"reserve late": func(*rapid.T) { w.reserveLate() },
		"read":         func(*rapid.T) { w.readSome() },
		"release":      func(*rapid.T) { w.releaseSome() },
		"drop":         func(*rapid.T) { w.dropSome() },
		"ack":          func(*rapid.T) { w.ackSome() },
		"terms":        func(*rapid.T) { w.changeTerms() },
		"shut":         func(*rapid.T) { w.shut() },
		"rebuild":      func(*rapid.T) { w.rebuild() },
	})
}

// A walk is a random sequence of steps of a gate and its model.
type walk struct {
	*rapid.T
	rdb   *redis.Client
	sku   string
	nodes []KeeperGate // gates of several processes
	model *model

	ids   []string      // all order ids so far
	stale []QueuedOrder // orders that have left the queue
}

func (w *walk) node() KeeperGate { return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(w.T, "node")] }

func (w *walk) same(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("model of the gate: %s: got\n%v, want\n%v", what, got, want)
	}
}

// sameError compares errors with errors.Is.
func (w *walk) sameError(what string, got, want error) {
	w.Helper()
	if !errors.Is(got, want) {
		w.Fatalf("model of the gate: %s: got error %v, want %v", what, got, want)
	}
}

func (w *walk) check() {
	if err := w.model.law(); err != nil {
		w.Fatal("model of the gate: it breaks its own law:", err)
	}
	w.same("state", state(w.T, w.rdb, w.sku), w.model.dump(w.sku))
	// The model has no clock. If there is a cooldown, rapid decides whether it ends now.
	key := keys.Sale(w.sku)
	coolingDown, err := w.rdb.HExists(context.Background(), key, "resume_at").Result()
	w.same("cooling down", fmt.Sprint(coolingDown, err), fmt.Sprint(w.model.coolingDown, error(nil)))
	if coolingDown {
		until := time.Now().Add(time.Hour).UnixMilli()
		w.model.coolingDown = rapid.Bool().Draw(w.T, "remains cooling down")
		if w.model.coolingDown {
			err = w.rdb.HSet(context.Background(), key, "resume_at", until).Err()
		} else {
			err = w.rdb.HDel(context.Background(), key, "resume_at").Err()
		}
		w.sameError("cooldown", err, nil)
	}

	g := w.nodes[0]
	queue, err := g.ReadQueue(context.Background(), w.sku, "", 1000)
	w.same("queue", fmt.Sprint(queue, err), fmt.Sprint(w.model.queue, error(nil)))
	view, err := g.Inspect(context.Background(), w.sku)
	want := View{}
	if m := w.model; m.exists {
		want.Summary = Summary{Exists: true, Open: m.open, Epoch: m.epoch, Terms: view.Terms, Available: m.available, QueuedOrders: int64(len(m.queue)), GrantedOrders: m.granted}
		want.Holds, want.Buyers, want.Orders = int64(len(m.holds)), int64(len(m.buyers)), m.queue
	}
	w.same("inspect", fmt.Sprint(view, err), fmt.Sprint(want, error(nil)))
	summary, err := g.Summaries(context.Background(), w.sku)
	if err != nil || summary[0].Available != view.Available || summary[0].QueuedOrders != view.QueuedOrders || view.Exists && (summary[0] != view.Summary || !view.Terms.Equal(w.model.terms)) {
		w.Fatalf("summary of the gate: got %+v, error %v, want %+v", summary, err, view.Summary)
	}
}

func (w *walk) someRequests() []Request {
	n := rapid.IntRange(1, 6).Draw(w.T, "requests")
	batch := make([]Request, n)
	for i := range batch {
		id := fmt.Sprintf("o%d", len(w.ids)+1)
		switch k := rapid.IntRange(0, 19).Draw(w.T, "id"); {
		case k == 0:
			id = rapid.SampledFrom([]string{"", "two words"}).Draw(w.T, "bad id")
		case k < 4 && len(w.ids) > 0:
			id = rapid.SampledFrom(w.ids).Draw(w.T, "known id")
		default:
			w.ids = append(w.ids, id)
		}
		batch[i] = Request{
			OrderID: id, SKU: w.sku, Node: rapid.SampledFrom([]string{"n1", "n2", ""}).Draw(w.T, "node"),
			Buyer: rapid.SampledFrom([]string{"ann", "bob", "cyd", "a/b", "a", "d e", ""}).Draw(w.T, "buyer"),
			Quantity: rapid.OneOf(
				rapid.Just(int64(1)), rapid.Just(int64(1)), rapid.Int64Range(1, 4), rapid.Int64Range(-2, 30),
				rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, 1 << 53}),
			).Draw(w.T, "quantity"),
			Key:         rapid.SampledFrom([]string{"", "", "k", "b/k", "l"}).Draw(w.T, "key"),
			Fingerprint: rapid.SampledFrom([]string{"p", "p", "p", "q r"}).Draw(w.T, "print"),
		}
	}
	return batch
}

// reserveSome sends one batch, as concurrent callers do.
func (w *walk) reserveSome() {
	calls := []*call{}
	for _, r := range w.someRequests() {
		calls = append(calls, &call{Q: r})
	}
	w.node().state(w.sku).reserveBatch(context.Background(), calls)
	for _, c := range calls {
		want := w.model.reserve(c.Q, time.Now())
		if err := want.compare(c.Answer, c.Err); err != nil {
			w.Fatalf("reserve %+v: the gate differs from the model: %v", c.Q, err)
		}
		if want.reason == nil && !want.replayed && want.at.IsZero() {
			w.model.reservedAt(want.id, c.Answer.AcceptedAt)
		}
	}
	w.nameEntries()
}

// nameEntries copies the ids of new entries from Redis to the model. Each entry must
// contain as many orders of the call as fit.
func (w *walk) nameEntries() {
	queue, err := w.nodes[0].ReadQueue(context.Background(), w.sku, "", 1000)
	if err != nil || len(queue) != len(w.model.queue) {
		w.Fatalf("queue of the gate: got %d orders, want %d (error %v)", len(queue), len(w.model.queue), err)
	}
	known := slices.IndexFunc(w.model.queue, func(q QueuedOrder) bool { return q.Entry == "" })
	for i := max(known, 0); i < len(queue) && known >= 0; i++ {
		begins := (i-known)%w.model.entry == 0
		if i > 0 && begins == (queue[i].Entry == queue[i-1].Entry) {
			w.Fatalf("order %d of a call: got entry %s and entry %s for the order before it, want one entry per call", i-known+1, queue[i].Entry, queue[i-1].Entry)
		}
		w.model.queue[i].Entry = queue[i].Entry
	}
}

// readSome reads a part of the queue from a random position.
func (w *walk) readSome() {
	after := ""
	if all := slices.Concat(w.model.queue, w.stale); len(all) > 0 && rapid.Bool().Draw(w.T, "after") {
		after = rapid.SampledFrom(all).Draw(w.T, "order").Entry
	}
	limit := rapid.IntRange(1, 8).Draw(w.T, "limit")
	queue, err := w.node().ReadQueue(context.Background(), w.sku, after, int64(limit))
	w.same("read", fmt.Sprint(queue, err), fmt.Sprint(w.model.read(after, limit), error(nil)))
}

// reserveLate sends a batch after its deadline, or with a deadline from before Redis's
// clock was set back.
func (w *walk) reserveLate() {
	if !w.model.open {
		w.Skip("no open gate")
	}
	deadline := time.Now().Add(rapid.SampledFrom([]time.Duration{-time.Second, time.Hour}).Draw(w.T, "deadline"))
	reply, err := reserveScript.Run(context.Background(), w.rdb,
		[]string{"sale:{" + w.sku + "}", "sale:{" + w.sku + "}:holds", "sale:{" + w.sku + "}:buyers", "sale:{" + w.sku + "}:queue"},
		deadline.UnixMilli(), 100, WakeChannel, w.sku, w.model.epoch, 0, "late", "ann", 1, "", "", "n").Slice()
	if len(reply) != 2 || err != nil || reply[0] != w.model.epoch {
		w.Fatalf("late call: got reply %v, error %v, want only the epoch and the time", reply, err)
	}
}

// someEpoch returns a keeper's epoch, which is wrong now and then.
func (w *walk) someEpoch() int64 {
	switch rapid.IntRange(0, 9).Draw(w.T, "epoch") {
	case 0:
		return w.model.epoch - 1
	case 1:
		return w.model.epoch + 1
	}
	return w.model.epoch
}

// someIDs returns order ids, of which some may be unknown or repeated.
func (w *walk) someIDs() []string {
	return rapid.SliceOfN(rapid.SampledFrom(append([]string{"unknown"}, w.ids...)), 0, 5).Draw(w.T, "ids")
}

func (w *walk) releaseSome() {
	k, ids := w.someEpoch(), w.someIDs()
	want, wantErr := w.model.release(k, ids)
	got, err := w.node().ReleaseHolds(context.Background(), w.sku, k, ids)
	w.sameError("release", err, wantErr)
	w.same("units released", got, want)
}

func (w *walk) dropSome() {
	k, ids := w.someEpoch(), w.someIDs()
	wantErr := w.model.dropHolds(k, ids)
	w.sameError("drop", w.node().DropHolds(context.Background(), w.sku, k, ids), wantErr)
}

// ackSome removes entries from the head of the queue. Now and then it names entries that
// are gone, or the wrong orders.
func (w *walk) ackSome() {
	var orders []QueuedOrder
	var release []string
	acked := func(q QueuedOrder) QueuedOrder {
		if rapid.IntRange(0, 3).Draw(w.T, "release") == 0 {
			release = append(release, q.OrderID)
		}
		return q
	}
	for _, q := range w.stale {
		if rapid.IntRange(0, 9).Draw(w.T, "stale") == 0 {
			orders = append(orders, acked(q))
		}
	}
	entries := w.model.entries()
	for _, entry := range entries[:rapid.IntRange(0, len(entries)).Draw(w.T, "entries")] {
		var decided []QueuedOrder
		for _, q := range entry {
			decided = append(decided, acked(q))
		}
		switch last := len(decided) - 1; rapid.IntRange(0, 11).Draw(w.T, "wrong") {
		case 0: // the id of another order
			decided[last].OrderID = rapid.SampledFrom(append([]string{"unknown"}, w.ids...)).Draw(w.T, "another")
		case 1:
			decided = decided[:last]
		case 2:
			decided = decided[1:]
		case 3:
			slices.Reverse(decided)
		}
		orders = append(orders, decided...)
	}
	slices.SortStableFunc(orders, func(a, b QueuedOrder) int { return compareEntries(a.Entry, b.Entry) })
	if len(orders) == 0 {
		release = nil
	}
	was := slices.Clone(w.model.queue)
	w.model.ack(orders, release)
	left, err := w.node().Ack(context.Background(), w.sku, orders, release)
	w.sameError("ack", err, nil)
	if len(orders) > 0 && (left == 0) != (len(w.model.queue) == 0) {
		w.Errorf("ack: got %d entries left, want entries only if orders are left: %d", left, len(w.model.queue))
	}
	for _, q := range was {
		if !slices.ContainsFunc(w.model.queue, func(left QueuedOrder) bool { return left.OrderID == q.OrderID }) {
			w.stale = append(w.stale, q)
		}
	}
}

// compareEntries compares stream ids in Redis's order.
func compareEntries(a, b string) int {
	var ms, n [2]int64
	for i, id := range []string{a, b} {
		_, _ = fmt.Sscanf(id, "%d-%d", &ms[i], &n[i])
	}
	return cmp.Or(cmp.Compare(ms[0], ms[1]), cmp.Compare(n[0], n[1]))
}

// someTerms returns terms of a sale that is open, has not opened yet, or is closed.
func (w *walk) someTerms() Terms {
	t := terms(rapid.Int64Range(0, 12).Draw(w.T, "total"), rapid.Int64Range(1, 5).Draw(w.T, "per buyer"))
	switch rapid.IntRange(0, 9).Draw(w.T, "window") {
	case 0:
		t.OpensAt = t.ClosesAt.Add(-time.Minute)
	case 1:
		t.ClosesAt = t.OpensAt.Add(time.Minute)
	}
	return t
}

func (w *walk) changeTerms() {
	k, t := w.someEpoch(), w.someTerms()
	wantErr := w.model.setTerms(k, t)
	w.sameError("set terms", w.node().SetTerms(context.Background(), w.sku, k, t), wantErr)
}

func (w *walk) shut() {
	k := w.someEpoch()
	w.model.shut(k)
	w.sameError("shut", w.node().BeginRebuild(context.Background(), w.sku, k), nil)
}

func (w *walk) install(was, epoch int64, s truth) {
	want := w.model.install(was, epoch, s)
	got, err := build(context.Background(), w.node(), w.sku, was, epoch, s)
	w.sameError("install", err, nil)
	w.same("installed", got, want)
}

// rebuild makes a complete rebuild, or now and then only its last step.
func (w *walk) rebuild() {
	if rapid.IntRange(0, 3).Draw(w.T, "in turn") > 0 {
		w.model.shut(w.model.epoch)
		w.sameError("shut", w.nodes[0].BeginRebuild(context.Background(), w.sku, w.model.epoch), nil)
		all := slices.Clone(w.model.queue)
		w.model.ack(all, nil)
		w.sameError("ack", check.Err(w.nodes[0].Ack(context.Background(), w.sku, all, nil)), nil)
	}
	closed := rapid.SampledFrom(append([]string{"none"}, slices.Sorted(maps.Keys(w.model.holds))...)).Draw(w.T, "closed")
	w.install(w.someEpoch(), w.model.epoch+1, w.model.truth(func(id string) bool { return id == closed }))
}
