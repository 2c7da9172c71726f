// Package live shows what a node sells, as it happens: the pages of buyers and of
// operators, and the streams of events that keep them up to date.
//
// A snapshot is made once a second for everybody who watches, however many they
// are, and its bytes are shared. While nobody watches none is made: the history
// of each sale goes on from what the node knows anyway. What the other nodes
// have done in their last second is in their heartbeat rows.
package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/orders"
	"flashsale/orders/shop"
	"flashsale/orders/store"
	"flashsale/ratelimit/limit"
)

// Config of a Live. Those with a default need not be given.
type Config struct {
	Node    string
	Service *shop.Service
	Store   *store.Store // whose heartbeat rows tell of the other nodes
	// Missing names the stores that do not answer.
	Missing func(context.Context) []string
	// Watchers bounds those who watch this node at once, and Operators the
	// operators, who have places of their own. Default 1,000 and 100.
	Watchers, Operators int
	// PerAddress has as its burst how many may watch from one address. Default 20.
	PerAddress limit.Limit
	// Life is how long somebody may watch before they have to come back: a place
	// is nobody's for good. Each stream's is up to a quarter shorter, so that not
	// all come back at once. Default 10 minutes.
	Life time.Duration
	// Every is the interval between snapshots, and between writes of the event log. Default 1 s.
	Every time.Duration
}

// storeTimeout is how long a snapshot waits for a store that does not answer.
const storeTimeout = time.Second

// ErrFull is for who comes after the most that may watch this node.
var ErrFull = errors.New("live: too many are watching")

// ErrEnded is for who comes after Run has ended.
var ErrEnded = errors.New("live: ended")

// A Live makes snapshots and hands them to all who watch. It is safe for
// concurrent use.
type Live struct {
	cfg       Config
	started   time.Time
	made      int64 // snapshots, Run's
	events    eventLog
	responses responseCounts
	bySale    atomic.Pointer[map[string]*times] // by SKU, of the sales that operators see

	mu        sync.Mutex
	histories histories
	topics    map[string]*topic // by SKU, those that somebody watches
	watching  int               // operators apart
	operators int
	addresses map[string]int // how many watch from each
	ended     bool
}

// New returns a Live. It makes snapshots while Run runs.
func New(cfg Config) *Live {
	cfg.Watchers, cfg.Operators = cmp.Or(cfg.Watchers, 1000), cmp.Or(cfg.Operators, 100)
	cfg.Life, cfg.Every = cmp.Or(cfg.Life, 10*time.Minute), cmp.Or(cfg.Every, time.Second)
	places, _ := limit.New(20, 10*time.Minute, 20)
	cfg.PerAddress = cmp.Or(cfg.PerAddress, places)
	l := &Live{cfg: cfg, started: time.Now(), histories: newHistories(), topics: map[string]*topic{}, addresses: map[string]int{}}
	l.events.then = l.started
	l.bySale.Store(&map[string]*times{})
	return l
}

// Run makes snapshots until ctx ends. Then all streams end, so that nobody who watches holds up a node that stops.
func (l *Live) Run(ctx context.Context) error {
	var observing sync.WaitGroup
	defer observing.Wait()
	observing.Go(func() { every(ctx, l.cfg.Every, l.observeOnce) })
	defer l.end()
	every(ctx, l.cfg.Every, l.runOnce)
	return nil
}

// every does something once per interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// runOnce makes one snapshot of each sale that somebody watches, and of all for
// operators.
func (l *Live) runOnce(ctx context.Context) {
	skus, overview := l.watched()
	if len(skus) == 0 && !overview {
		l.record(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	missing := make(chan []string, 1)
	go func() { missing <- append([]string{}, l.cfg.Missing(ctx)...) }()
	all := skus
	if overview {
		all = l.withListed(skus)
	}
	offers, asked := l.cfg.Service.Watched(ctx, all...)
	away := <-missing

	watched := slices.DeleteFunc(slices.Clone(offers), func(o orders.Offer) bool { return !slices.Contains(skus, o.SKU) })
	marks := l.record(watched)
	l.made++
	for _, offer := range watched {
		l.publish(offer.SKU, event("sale", snapshot{
			ID: l.made, Now: offer.Now.Truncate(time.Millisecond), Sale: offer, Sold: offer.Sold, Direct: offer.SoldDirect(),
			Exact: asked, Missing: away, Marks: append([]mark{}, marks[offer.SKU]...),
		}))
	}
	l.dropAllBut(watched)
	if overview {
		view := l.overview(offers, l.nodes(ctx))
		view.ID, view.Missing = l.made, away
		l.publish(overviewTopic, event("overview", view))
	}
}

// record adds a second to the histories and returns the new marks by SKU.
func (l *Live) record(offers []orders.Offer) map[string][]mark {
	catalog := l.cfg.Service.Keepers().Catalog()
	sales := catalog.All()
	if sales == nil { // not read yet
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := catalog.Now()
	if l.histories.began.IsZero() { // by the database's clock
		l.histories.began = now.Add(-time.Since(l.started)).Truncate(time.Millisecond)
	}
	return l.histories.record(now, sales, offers)
}
