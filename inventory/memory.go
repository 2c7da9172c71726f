package inventory

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/inventory/internal/keys"
)

// memory is what a node remembers of a sold-out SKU, so that refusing costs no
// round trip: that nothing was left, when it asked, and which buyers have had
// an order. Their requests go on, for they may be replays.
//
// It is believed for Config.SoldOutFor from the moment the question was sent.
// Half-way through, one question is asked for all, so that under steady traffic
// nobody waits and nobody else asks. Nothing depends on being told that units
// came back.
type memory struct {
	known  atomic.Pointer[soldOut]
	asking atomic.Bool // the one question is under way

	seen      sync.Mutex // guards what follows
	newest    version    // of the gate, as far as its replies have come in
	heard     time.Time  // when that one came in
	loading   bool       // the buyers are being read
	loadAgain time.Time  // not before this
}

type soldOut struct {
	version version
	until   time.Time
	buyers  []uint64 // hashes, sorted: 8 bytes a buyer; a collision only means one question more
}

// version tells whether the set of buyers can have grown: no order was let in
// while it stays the same.
type version struct{ epoch, granted int64 }

func (v version) before(o version) bool {
	return v.epoch < o.epoch || v.epoch == o.epoch && v.granted < o.granted
}

var seed = maphash.MakeSeed()

// SoldOut tells whether sku is sold out for buyer as far as this node knows,
// without asking anybody. False means "ask". "Too few left for 3" says nothing
// about 1, so only an empty gate is remembered.
func (g *Gate) SoldOut(sku, buyer string) bool {
	v, ok := g.skus.Load(sku)
	if !ok {
		return false
	}
	t := v.(*turnstile)
	s := t.known.Load()
	if s == nil {
		return false
	}
	left := time.Until(s.until)
	if left < g.cfg.SoldOutFor/2 && t.asking.CompareAndSwap(false, true) {
		go t.askAgain()
	}
	if left <= 0 {
		return false
	}
	_, had := slices.BinarySearch(s.buyers, maphash.String(seed, buyer))
	return !had
}

// askAgain asks the gate how things are, reserving nothing, and takes note.
func (t *turnstile) askAgain() {
	defer t.asking.Store(false)
	t.reserveBatch(nil)
}

// saw takes note of what a script call that was sent at sent has shown. It is
// called before the callers of that call hear anything, so whoever has been
// let in is not refused from here a moment later.
func (t *turnstile) saw(sent time.Time, now version, available int64) {
	t.seen.Lock()
	defer t.seen.Unlock()
	if now.before(t.newest) && sent.Before(t.heard) {
		return // overtaken: others have been let in since
	}
	// An older version that was asked for later is a Redis that has gone back.
	t.newest, t.heard = now, time.Now()
	s := t.known.Load()
	switch {
	case available > 0:
		if s != nil {
			t.known.Store(nil)
		}
	case s != nil && s.version == now:
		next := *s
		next.until = sent.Add(t.gate.cfg.SoldOutFor)
		if next.until.After(s.until) {
			t.known.Store(&next)
		}
	default: // nothing is left, and we don't know who has had what there was
		if s != nil {
			t.known.Store(nil)
		}
		if !t.loading && !sent.Before(t.loadAgain) {
			t.loading = true
			go t.loadBuyers(now)
		}
	}
}

// loadBuyers reads who has had an order, at the version of a gate seen empty.
// HSCAN returns every field that is there from start to end, and the version
// was read before the start; a buyer who comes later changes the version.
//
// It ends by itself, bounded by the call's timeout. Reading many buyers takes
// a while; then it is done more seldom, and meanwhile requests go to the gate.
func (t *turnstile) loadBuyers(at version) {
	ctx, cancel := context.WithTimeout(context.Background(), t.gate.cfg.Timeout)
	defer cancel()
	start := time.Now()
	buyers, err := t.readBuyers(ctx)
	took := time.Since(start)

	t.seen.Lock()
	defer t.seen.Unlock()
	t.loading = false
	t.loadAgain = start.Add(20 * took) // also when it failed: Redis has enough to do
	if err != nil {
		return
	}
	if t.newest == at {
		// until is in the past: the next question confirms it under this version.
		t.known.Store(&soldOut{version: at, until: start, buyers: buyers})
	}
}

func (t *turnstile) readBuyers(ctx context.Context) ([]uint64, error) {
	var buyers []uint64
	var cursor uint64
	for {
		page, next, err := t.gate.rdb.HScan(ctx, keys.Buyers(t.sku), cursor, "", 1000).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(page); i += 2 {
			buyers = append(buyers, maphash.String(seed, page[i]))
		}
		if cursor = next; cursor == 0 {
			slices.Sort(buyers)
			return slices.Clip(slices.Compact(buyers)), nil
		}
	}
}
