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

// Config of a Gate. The zero value means the defaults.
type Config struct {
	// Batch is the most requests that share one script call. Default 256: a
	// call of that size keeps Redis busy for about 2 ms. That is also the most:
	// what a script can hand over to one command is bounded.
	Batch int
	// InFlight is the largest number of script calls of one SKU that are under way at
	// once. Default 2: the next batch travels while Redis works on the last one, and more
	// calls would only make the batches smaller.
	InFlight int
	// Timeout of one call of the reserve script, whoever of its callers still waits, and of
	// Queue and Ack. Calls for many SKUs may wait for each other as long before that.
	// Default 1 s.
	Timeout time.Duration
	// QueueLimit is how many orders may wait for the database per SKU before
	// reserving is refused with ErrBusy. Default 20,000.
	QueueLimit int
	// SoldOutFor is how long a node refuses from memory before it asks again.
	// Default 100 ms.
	SoldOutFor time.Duration
	// OnBatch, where set, hears of each script call, for metrics and traces. It
	// must not block.
	OnBatch func(Batch)
}

func (c Config) withDefaults() Config {
	if c.Batch <= 0 || c.Batch > 256 {
		c.Batch = 256
	}
	// What is below zero was not given, either.
	c.InFlight = cmp.Or(max(c.InFlight, 0), 2)
	c.Timeout = cmp.Or(max(c.Timeout, 0), time.Second)
	c.QueueLimit = cmp.Or(max(c.QueueLimit, 0), 20_000)
	c.SoldOutFor = cmp.Or(max(c.SoldOutFor, 0), 100*time.Millisecond)
	return c
}

// A Gate reserves stock in one Redis, standalone or cluster, for sellers. It is safe for
// concurrent use and owns no goroutine while nobody reserves. Call Wait before closing
// the client.
type Gate struct {
	rdb  redis.UniversalClient
	cfg  Config
	skus sync.Map // sku → *saleState; as many as there are sales

	tasks coalesce.Tasks   // calls that are under way
	pipe  *pipeline.Sender // to rdb, for what comes in great numbers: calls for many SKUs travel together

	replIDs sync.Map     // name of a master → the replID last read from it
	changes atomic.Int64 // how often a replID differed from the one before: see replid.go
}

// Keeping is the face of a Gate for the component that carries orders between Redis and
// the database. Only the keeper of a SKU calls the methods that change its gate.
type Keeping struct{ *Gate }

// New returns a Gate on rdb. The client must honour deadlines
// (ContextTimeoutEnabled), or Config.Timeout holds nothing up, and it must not
// read from replicas.
func New(rdb redis.UniversalClient, cfg Config) *Gate {
	g := &Gate{rdb: rdb, cfg: cfg.withDefaults()}
	g.pipe = pipeline.New(rdb, g.cfg.Timeout, &g.tasks)
	return g
}

// Wait returns when no call is under way that callers have started, or with the
// context's error. Each of them ends within twice Config.Timeout.
func (g *Gate) Wait(ctx context.Context) error { return g.tasks.Wait(ctx) }

// Terms are what a sale allows.
type Terms struct {
	Total    int64     // units
	PerBuyer int64     // units one buyer may hold or have paid
	OpensAt  time.Time // whole milliseconds
	ClosesAt time.Time
}

// Equal tells whether two sets of terms are the same.
func (t Terms) Equal(o Terms) bool {
	return t.Total == o.Total && t.PerBuyer == o.PerBuyer && t.OpensAt.Equal(o.OpensAt) && t.ClosesAt.Equal(o.ClosesAt)
}
