// Package live shows what a node sells, as it happens: the page, and the stream
// of snapshots that keeps it up to date.
//
// A snapshot is made once a second for everybody who watches, however many they
// are, and its bytes are shared. While nobody watches none is made, and nodes
// say nothing to each other.
package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/orders"
)

// Config of a Live. Those with a default need not be given.
type Config struct {
	Node    string
	Service *orders.Service
	Redis   redis.UniversalClient
	// Requests are those that this node has answered since it started.
	Requests func() Requests
	// Missing names the stores that do not answer.
	Missing func(context.Context) []string
	// Watchers bounds those who watch this node at once. Default 1,000.
	Watchers int
	// Every is how often a snapshot is made. Default 1 s.
	Every time.Duration
}

// storeTimeout is how long a snapshot waits for a store that does not answer.
const storeTimeout = time.Second

// ErrFull is for who comes after the most that may watch.
var ErrFull = errors.New("live: too many are watching")

// ErrEnded is for who comes after Run has ended.
var ErrEnded = errors.New("live: ended")

// A Live makes snapshots and hands them to all who watch. It is safe for
// concurrent use.
type Live struct {
	cfg     Config
	started time.Time
	others  others

	mu       sync.Mutex
	topics   map[string]*topic // by SKU, those that somebody watches
	watching int
	ended    bool
}

// New returns a Live. It makes snapshots while Run runs.
func New(cfg Config) *Live {
	if cfg.Watchers <= 0 {
		cfg.Watchers = 1000
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	return &Live{cfg: cfg, started: time.Now(), topics: map[string]*topic{}}
}

// Run makes snapshots and listens to the other nodes until ctx ends. Then all
// streams end, so that nobody who watches holds up a node that stops.
func (l *Live) Run(ctx context.Context) error {
	defer l.end()
	var g errgroup.Group
	g.Go(func() error { l.listen(ctx); return nil })
	tick := time.NewTicker(l.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-tick.C:
			l.runOnce(ctx)
		}
	}
}

// runOnce makes one snapshot of each sale that somebody watches.
func (l *Live) runOnce(ctx context.Context) {
	skus, operators := l.watched()
	if len(skus) == 0 {
		l.others.forget()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	missing := make(chan []string, 1)
	go func() { missing <- l.cfg.Missing(ctx) }()
	offers, asked := l.cfg.Service.Watched(ctx, skus...)
	away := <-missing

	var nodes []counts
	if len(operators) > 0 {
		nodes = l.others.seen(l.count(operators))
	}
	figures := l.others.rates(nodes)
	for _, offer := range offers {
		public := event("sale", newSnapshot(&offer, asked, away))
		var operator []byte
		if operators[offer.SKU] {
			operator = append(public[:len(public):len(public)], event("figures", figures.of(&offer, nodes, l.cfg.Node))...)
		}
		l.publish(offer.SKU, public, operator)
	}
	l.dropAllBut(offers)
	if len(operators) > 0 {
		l.ask(ctx, operators) // for the next one
	}
}
