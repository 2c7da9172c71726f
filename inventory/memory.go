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

// A memory holds what a node remembers of a sold-out SKU: when the gate was seen empty,
// and which buyers have had an order. With it a refusal costs no round trip. Requests of
// the remembered buyers are sent to the gate, because they may be replays.
//
// The memory is valid for Config.SoldOutFor from the time at which the call to the gate
// was sent. After half of that time one caller asks the gate, and the answer renews the
// memory for all callers. A steady flow of requests therefore costs one call per renewal.
type memory struct {
	known atomic.Pointer[soldOut]
	asked atomic.Int64 // time at which a caller was last sent to the gate, since started

	seen      sync.Mutex // guards the fields below
	newest    version    // newest version of the gate in any reply
	newestAt  time.Time  // time at which that reply arrived
	loading   bool       // loadBuyers is running
	loadAgain time.Time  // earliest start of the next loadBuyers
}

type soldOut struct {
	version version
	until   time.Time
	buyers  []uint64 // sorted hashes, 8 bytes per buyer; a collision only costs a call
}

// A version identifies a state of the set of buyers. While the version stays the same,
// the gate has accepted no order.
type version struct {
	epoch, granted int64
	changes        int64 // Gate.changes
}

func (v version) before(o version) bool {
	return v.epoch < o.epoch || v.epoch == o.epoch && v.granted < o.granted
}

var seed = maphash.MakeSeed()

// KnownSoldOut reports whether this node remembers that sku is sold out for buyer, and
// returns the epoch of the empty gate. It makes no call. If it returns false, the caller
// must ask the gate. Only a gate without any units is remembered, because a gate with too
// few units for one order may have enough for a smaller order.
func (g *Gate) KnownSoldOut(sku, buyer string) (epoch int64, soldOut bool) {
	v, ok := g.skus.Load(sku)
	if !ok {
		return 0, false
	}
	s := v.(*saleState)
	known := s.known.Load()
	if known == nil || known.version.changes != g.changes.Load() {
		return 0, false // nothing remembered, or Redis may have been replaced since
	}
	left := time.Until(known.until)
	if left <= 0 || left < g.cfg.SoldOutFor/2 && s.mayAsk() {
		return 0, false
	}
	_, had := slices.BinarySearch(known.buyers, maphash.String(seed, buyer))
	return known.version.epoch, !had
}

// mayAsk selects one caller to ask the gate. After a quarter of SoldOutFor it selects the
// next caller, because the rate limiter may have refused the first.
func (s *saleState) mayAsk() bool {
	last, at := s.asked.Load(), int64(time.Since(started))
	return at-last > int64(s.gate.cfg.SoldOutFor/4) && s.asked.CompareAndSwap(last, at)
}

// saw records the gate's version and available units from the reply to a call that was
// sent at the given time. It runs before the callers of that call return. Otherwise a
// buyer whose order was just accepted could be refused from memory.
func (s *saleState) saw(sent time.Time, now version, available int64) {
	s.seen.Lock()
	defer s.seen.Unlock()
	if now.before(s.newest) && (now.epoch == s.newest.epoch || sent.Before(s.newestAt)) {
		return // a newer reply has arrived
	}
	s.newest, s.newestAt = now, time.Now()
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
	default: // the gate is empty, and its buyers are not known
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

// wentBack records granted, which was read from the gate after sent. It reports whether
// this node has seen a higher value in the same epoch.
func (s *saleState) wentBack(sent time.Time, epoch, granted int64) bool {
	s.seen.Lock()
	defer s.seen.Unlock()
	now := version{epoch, granted, s.gate.changes.Load()}
	if s.newest.before(now) {
		s.newest, s.newestAt = now, time.Now()
	}
	return epoch == s.newest.epoch && granted < s.newest.granted && !sent.Before(s.newestAt)
}

// loadBuyers reads the buyers who have had an order, for a gate that was empty at version
// at. HSCAN returns every field that exists during the whole scan. A buyer who is added
// during the scan changes the version, and the result is then discarded.
//
// A load that takes long is repeated less often. Until it has finished, requests are sent
// to the gate.
func (s *saleState) loadBuyers(at version) {
	ctx, cancel := context.WithTimeout(context.Background(), s.gate.cfg.Timeout)
	defer cancel()
	start := time.Now()
	buyers, err := s.readBuyers(ctx)
	took := time.Since(start)

	s.seen.Lock()
	defer s.seen.Unlock()
	s.loading = false
	s.loadAgain = start.Add(20 * took) // after a failure too, because Redis may be overloaded
	if err == nil && s.newest == at {
		// until has passed already. The next reply with this version renews it.
		s.known.Store(&soldOut{version: at, until: start, buyers: buyers})
	}
}

func (s *saleState) readBuyers(ctx context.Context) ([]uint64, error) {
	var buyers []uint64
	var cursor uint64
	for {
		page, next, err := s.gate.rdb.HScan(ctx, s.gate.cfg.Prefix+keys.Buyers(s.sku), cursor, "", 1000).Result()
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
