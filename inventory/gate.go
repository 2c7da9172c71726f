package inventory

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
	"flashsale/inventory/coalesce/pipeline"
)

// Config holds the settings of a Gate. Zero and negative values mean the defaults.
type Config struct {
	// MaxBatch is the largest number of requests that share one script call. The default,
	// 256, is also the maximum, because Lua passes a limited number of values to one
	// command. A full batch occupies Redis for about 2 ms.
	MaxBatch int
	// MaxInFlight is the largest number of concurrent script calls for one SKU. Default 2:
	// one batch travels while Redis processes another. More calls would only make the
	// batches smaller.
	MaxInFlight int
	// Timeout bounds one call of the reserve script, of ReadQueue and of Ack. A call may wait
	// as long again for earlier calls. The end of a caller's context does not end a call
	// that other callers share. Default 1 s.
	Timeout time.Duration
	// QueueLimit is the largest number of queued orders of one SKU. Above it, Reserve
	// returns ErrBusy. Default 20,000.
	QueueLimit int
	// SoldOutFor is the time for which a node refuses requests from memory before it asks
	// the gate again. Default 100 ms.
	SoldOutFor time.Duration
	// Prefix is the first part of the names of all keys and channels, such as "shop-b:". It
	// must not contain braces. Default none.
	Prefix string
	// OnBatch, if not nil, is called after each script call, for metrics and traces. It
	// must not block.
	OnBatch func(Batch)
}

func (c Config) withDefaults() Config {
	if c.MaxBatch <= 0 || c.MaxBatch > 256 {
		c.MaxBatch = 256
	}
	c.MaxInFlight = cmp.Or(max(c.MaxInFlight, 0), 2)
	c.Timeout = cmp.Or(max(c.Timeout, 0), time.Second)
	c.QueueLimit = cmp.Or(max(c.QueueLimit, 0), 20_000)
	c.SoldOutFor = cmp.Or(max(c.SoldOutFor, 0), 100*time.Millisecond)
	return c
}

// A Gate reserves stock in one Redis, standalone or cluster. It is safe for concurrent
// use, and has no goroutines while it is idle. Call Wait before closing the client.
type Gate struct {
	rdb  redis.UniversalClient
	cfg  Config
	skus sync.Map // sku → *saleState

	tasks coalesce.Tasks   // calls in flight
	pipe  *pipeline.Sender // sends calls for many SKUs to rdb together

	replIDs sync.Map     // name of a master → its replID, as last read
	changes atomic.Int64 // number of changed replIDs
}

// KeeperGate adds the calls that a keeper needs to a Gate. A keeper moves orders between
// Redis and the database. Only the keeper of a SKU calls the methods that change the
// SKU's gate.
type KeeperGate struct{ *Gate }

// New returns a Gate on rdb. The client must have ContextTimeoutEnabled set, because
// Config.Timeout has no effect otherwise. It must not read from replicas.
func New(rdb redis.UniversalClient, cfg Config) *Gate {
	g := &Gate{rdb: rdb, cfg: cfg.withDefaults()}
	g.pipe = pipeline.New(rdb, g.cfg.Timeout, &g.tasks)
	return g
}

// Wait returns when no call is in flight, or with the context's error. Each call ends
// within twice Config.Timeout.
func (g *Gate) Wait(ctx context.Context) error { return g.tasks.Wait(ctx) }

// named returns the keys with Config.Prefix.
func (g *Gate) named(names ...string) []string {
	if g.cfg.Prefix != "" {
		for i := range names {
			names[i] = g.cfg.Prefix + names[i]
		}
	}
	return names
}

// Terms are the conditions of a sale.
type Terms struct {
	Total         int64     // units on sale
	UnitsPerBuyer int64     // units that one buyer may hold or have paid
	OpensAt       time.Time // whole milliseconds
	ClosesAt      time.Time // whole milliseconds
}

// Equal reports whether t and o are the same terms.
func (t Terms) Equal(o Terms) bool {
	return t.Total == o.Total && t.UnitsPerBuyer == o.UnitsPerBuyer && t.OpensAt.Equal(o.OpensAt) && t.ClosesAt.Equal(o.ClosesAt)
}
