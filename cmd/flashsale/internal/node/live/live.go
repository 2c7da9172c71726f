// Package live contains the live pages of buyers and operators and their streams of
// server-sent events.
//
// Once a second a node makes one snapshot of each watched sale, whose bytes all watchers
// share. A sale without watchers costs no query: its history is recorded from the node's
// copy of the sales. The statistics of other nodes come from their heartbeat rows.
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
	"flashsale/orders/feed"
	"flashsale/orders/feed/webhooks"
	"flashsale/orders/shop"
	"flashsale/orders/store"
	"flashsale/ratelimit/limit"
)

// Config of a Live.
type Config struct {
	Node    string
	Service *shop.Service
	Store   *store.Store // contains the heartbeat rows of all nodes
	// Missing returns the names of the stores that do not respond.
	Missing func(context.Context) []string
	// Crowd returns the crowd that a demo has sent to a sale, or nil if there is none.
	Crowd func() *Crowd
	// Feed and Webhooks are nil if the node has no feed of changes.
	Feed     *feed.Feed
	Webhooks *webhooks.Deliverer
	// Watchers is the maximum number of concurrent streams of buyers on this node, and
	// Operators the maximum of operators. The defaults are 1,000 and 100.
	Watchers, Operators int
	// PerAddress.Burst is the maximum number of streams of one address, separately for buyers
	// and operators. The default is 20.
	PerAddress limit.Limit
	// Life is the longest duration of a stream. After it the client has to reconnect, so
	// that new clients get a chance. The actual duration is random, up to a quarter
	// shorter, so that clients do not reconnect all at once. The default is 10 minutes.
	Life time.Duration
	// Every is the interval between snapshots. The default is 1 s.
	Every time.Duration
}

// storeTimeout bounds the wait for stores in a snapshot.
const storeTimeout = time.Second

// ErrFull is returned by Watch if the node has the maximum number of streams.
var ErrFull = errors.New("live: too many streams")

// ErrEnded is returned by Watch after Run has ended.
var ErrEnded = errors.New("live: ended")

// A Live makes snapshots and sends them to all watchers. It is safe for concurrent use.
type Live struct {
	cfg       Config
	started   time.Time
	made      int64 // number of snapshots, used by Run only
	events    eventLog
	responses responseCounts
	bySale    atomic.Pointer[map[string]*times] // response times of orders, by SKU, for the overview

	mu        sync.Mutex
	histories histories
	topics    map[string]*topic // topic of each SKU that has watchers
	watching  int               // number of buyers' streams
	operators int               // number of operators' streams
	addresses map[place]int     // number of streams by address and kind of client
	ended     bool
}

// New returns a Live, which makes snapshots while Run runs.
func New(cfg Config) *Live {
	cfg.Watchers, cfg.Operators = cmp.Or(cfg.Watchers, 1000), cmp.Or(cfg.Operators, 100)
	cfg.Life, cfg.Every = cmp.Or(cfg.Life, 10*time.Minute), cmp.Or(cfg.Every, time.Second)
	places, _ := limit.New(20, 10*time.Minute, 20)
	cfg.PerAddress = cmp.Or(cfg.PerAddress, places)
	l := &Live{cfg: cfg, started: time.Now(), histories: newHistories(), topics: map[string]*topic{}, addresses: map[place]int{}}
	l.events.at = l.started
	l.bySale.Store(&map[string]*times{})
	return l
}

// Run makes snapshots until ctx is canceled. Then it ends all streams, because Shutdown of
// the HTTP server waits for them.
func (l *Live) Run(ctx context.Context) error {
	var observing sync.WaitGroup
	defer observing.Wait()
	observing.Go(func() { every(ctx, l.cfg.Every, l.observeOnce) })
	defer l.end()
	every(ctx, l.cfg.Every, l.runOnce)
	return nil
}

// every calls do once per interval until ctx is canceled.
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

// runOnce makes a snapshot of each watched sale and, if an operator watches, the overview.
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
	offers, exact := l.cfg.Service.KnownOffers(ctx, all...)
	missingStores := <-missing

	watched := slices.DeleteFunc(slices.Clone(offers), func(o orders.Offer) bool { return !slices.Contains(skus, o.SKU) })
	marks := l.record(watched)
	l.made++
	for _, offer := range watched {
		l.publish(offer.SKU, event("sale", snapshot{
			ID: l.made, Now: offer.Now.Truncate(time.Millisecond), Sale: offer, Sold: offer.Sold, Direct: offer.SoldDirect(),
			Exact: exact, Missing: missingStores, Marks: append([]mark{}, marks[offer.SKU]...), Crowd: l.cfg.Crowd(),
		}))
	}
	l.dropAllBut(watched)
	if overview {
		view := l.overview(offers, l.nodes(ctx))
		if len(offers) == 0 {
			view.Now = l.cfg.Service.Controller().Catalog().Now()
		}
		view.ID, view.Missing, view.Crowd = l.made, missingStores, l.cfg.Crowd()
		l.publish(overviewTopic, event("overview", view))
	}
}

// record adds the current second to the histories and returns the new marks by SKU.
func (l *Live) record(offers []orders.Offer) map[string][]mark {
	catalog := l.cfg.Service.Controller().Catalog()
	sales := catalog.All()
	if sales == nil { // the node has not read the sales yet
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := catalog.Now()
	if l.histories.began.IsZero() { // the database's time of the start
		l.histories.began = now.Add(-time.Since(l.started)).Truncate(time.Millisecond)
	}
	marks := l.histories.record(now, sales, offers)
	l.events.log(markEvents(marks))
	return marks
}
