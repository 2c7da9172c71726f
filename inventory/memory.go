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

// memory holds what a node remembers of a sold-out SKU, so that a refusal costs no
// round trip: when the gate was seen empty, and which buyers have had an order. The
// requests of these buyers are sent to the gate, because they may be replays.
//
// The memory is valid for Config.SoldOutFor, counted from the time at which the call to
// the gate was sent. After half of that time one caller asks the gate, and the answer
// renews the memory for all callers. Under steady traffic no other caller asks. The
// memory does not depend on a message that units have been released.
type memory struct {
	known atomic.Pointer[soldOut]
	asked atomic.Int64 // when a caller was last sent to the gate: time since started

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

// A version identifies a state of the set of buyers. While the version stays the same,
// the gate has accepted no order.
type version struct {
	epoch, granted int64
	changes        int64 // how often a Redis was found to be another one
}

func (v version) before(o version) bool {
	return v.epoch < o.epoch || v.epoch == o.epoch && v.granted < o.granted
}

var seed = maphash.MakeSeed()

// KnownSoldOut reports whether this node remembers that sku is sold out for buyer, and
// the epoch of the empty gate. It makes no call. If it returns false, the caller must
// ask the gate. Only an empty gate is remembered: a gate that has too few units for one
// order may have enough for a smaller one.
func (g *Gate) KnownSoldOut(sku, buyer string) (epoch int64, soldOut bool) {
	v, ok := g.skus.Load(sku)
	if !ok {
		return 0, false
	}
	s := v.(*saleState)
	known := s.known.Load()
	if known == nil || known.version.changes != g.changes.Load() {
		return 0, false // nothing is remembered, or Redis may have been replaced since
	}
	left := time.Until(known.until)
	if left <= 0 || left < g.cfg.SoldOutFor/2 && s.mayAsk() {
		return 0, false
	}
	_, had := slices.BinarySearch(known.buyers, maphash.String(seed, buyer))
	return known.version.epoch, !had
}

// mayAsk tells one caller to ask the gate, and a quarter of the memory's time
// later the next one: a limiter may have refused the first on its way.
func (s *saleState) mayAsk() bool {
	last, at := s.asked.Load(), int64(time.Since(started))
	return at-last > int64(s.gate.cfg.SoldOutFor/4) && s.asked.CompareAndSwap(last, at)
}

// saw takes note of what a script call that was sent at sent has shown. It is
// called before the callers of that call hear anything, so whoever has been
// let in is not refused from here a moment later.
func (s *saleState) saw(sent time.Time, now version, available int64) {
	s.seen.Lock()
	defer s.seen.Unlock()
	if now.before(s.newest) && (now.epoch == s.newest.epoch || sent.Before(s.heard)) {
		return // overtaken: others have been let in since
	}
	s.newest, s.heard = now, time.Now()
	known := s.known.Load()
	switch {
	case available > 0:
		s.known.Store(nil)
	case known != nil && known.version == now:
		next := *known
		next.until = sent.Add(s.gate.cfg.SoldOutFor)
		if next.until.After(known.until) {
			s.known.Store(&next)
		}
	default: // nothing is left, and we don't know who has had what there was
		s.known.Store(nil)
		if !s.loading && !sent.Before(s.loadAgain) {
			s.loading = true
			s.gate.tasks.Go(func() { s.loadBuyers(now) })
		}
	}
}

// latest returns the newest version of the gate that this node has seen.
func (s *saleState) latest() version {
	s.seen.Lock()
	defer s.seen.Unlock()
	return s.newest
}

// wentBack records the number of accepted orders that was read from the gate, not
// earlier than sent. It reports whether this node had seen a higher number before.
func (s *saleState) wentBack(sent time.Time, epoch, granted int64) bool {
	s.seen.Lock()
	defer s.seen.Unlock()
	now := version{epoch, granted, s.gate.changes.Load()}
	if s.newest.before(now) {
		s.newest, s.heard = now, time.Now()
	}
	return epoch == s.newest.epoch && granted < s.newest.granted && !sent.Before(s.heard)
}

// loadBuyers reads who has had an order, at the version of a gate seen empty.
// HSCAN returns every field that is there from start to end, and the version
// was read before the start; a buyer who comes later changes the version.
//
// It ends by itself, bounded by the call's timeout. Reading many buyers takes
// a while; then it is done more seldom, and meanwhile requests go to the gate.
func (s *saleState) loadBuyers(at version) {
	ctx, cancel := context.WithTimeout(context.Background(), s.gate.cfg.Timeout)
	defer cancel()
	start := time.Now()
	buyers, err := s.readBuyers(ctx)
	took := time.Since(start)

	s.seen.Lock()
	defer s.seen.Unlock()
	s.loading = false
	s.loadAgain = start.Add(20 * took) // also when it failed: Redis has enough to do
	if err == nil && s.newest == at {
		// until is in the past: the next question confirms it under this version.
		s.known.Store(&soldOut{version: at, until: start, buyers: buyers})
	}
}

func (s *saleState) readBuyers(ctx context.Context) ([]uint64, error) {
	var buyers []uint64
	var cursor uint64
	for {
		page, next, err := s.gate.rdb.HScan(ctx, keys.Buyers(s.sku), cursor, "", 1000).Result()
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
