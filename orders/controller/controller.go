package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// Setup of a Controller. All of it is required but OnCommit.
type Setup struct {
	Store *store.Store
	Gate  keeper.Gate
	Redis redis.UniversalClient
	Locks lease.Locker // says who keeps a SKU; its Run is run here
	Node  string       // names this process, once in all its life
	Clock func() time.Time
	Log   *slog.Logger
	// Deliver hears what became of orders whose callers wait on this node. It must
	// not block.
	Deliver  func(...Notice)
	OnCommit func(*keeper.Commit) // hears of each transaction, for metrics and traces; it must not block
	Keeper   Config
	Direct   DirectConfig
}

// New returns the controller of a node. It keeps nothing until Run runs.
func New(cfg Setup) *Controller {
	loops := newLoops(cfg.Log)
	ks := &Controller{
		node: cfg.Node, store: cfg.Store, gate: cfg.Gate, locks: cfg.Locks, loops: loops,
		// As long as it takes a master that does not answer to be down.
		redis:   &redisHealth{gate: cfg.Gate, lasts: int(cfg.Direct.After / cfg.Direct.probeEvery(cfg.Keeper.Lease))},
		catalog: store.NewCatalog(cfg.Store, cfg.Clock),
		deliver: cfg.Deliver, report: cfg.OnCommit, log: cfg.Log, cfg: cfg.Keeper,
		reassign: make(chan struct{}, 1),
		slots:    map[string]*slot{}, backoffUntil: map[string]time.Time{}, handedOverAt: map[string]time.Time{},
		signal: make(chan struct{}, cfg.Keeper.Workers),
	}
	ks.Commits = keeper.NewGroupCommit(cfg.Store, cfg.Keeper.Batch, cfg.Keeper.Lease/4, &ks.count)
	ks.direct = &directMode{cfg: cfg.Direct, keepers: ks}
	ks.bus = &bus{rdb: cfg.Redis, keepers: ks}
	return ks
}

// Run keeps SKUs until ctx ends. It ends in two steps: SKUs are handed over while
// locks and messages still work.
func (ks *Controller) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base, loops errgroup.Group
	base.Go(func() error { return ks.locks.Run(under) })
	base.Go(func() error { return ks.bus.Run(under) })
	loops.Go(func() error { return ks.loops["catalog"].Every(ctx, store.CatalogAge, ks.catalog.Refresh) })
	loops.Go(func() error { return ks.keep(ctx) })
	loops.Go(func() error {
		return ks.loops["probe"].Every(ctx, ks.direct.cfg.probeEvery(ks.cfg.Lease), ks.direct.runOnce)
	})
	err := loops.Wait()
	stop()
	if e := base.Wait(); err == nil {
		err = e
	}
	return err
}

// Wait waits until no transaction of the keepers is under way, or ctx ends.
func (ks *Controller) Wait(ctx context.Context) error { return ks.Commits.Wait(ctx) }

// Catalog is this node's copy of the sales.
func (ks *Controller) Catalog() *store.Catalog { return ks.catalog }

// Loop is one of the node's loops, by its name.
func (ks *Controller) Loop(name string) *loop { return ks.loops[name] }

// follow acts on a hint about a SKU. A node that does not know that another one
// keeps it looks for locks that are free: the sale is new, or nobody keeps it.
func (ks *Controller) follow(sku string) {
	if !ks.wake(sku, keeper.Release|keeper.Inspect) && !ks.isOthers(sku) {
		ks.lookForFree()
	}
}

// Ended has the keeper of sku, here or elsewhere, look at orders that were closed
// or paid.
func (ks *Controller) Ended(ctx context.Context, sku string) {
	if !ks.wake(sku, keeper.Release) {
		ks.bus.hint(ctx, sku)
	}
}

// Changed has the keeper of sku compare the gate with the database.
func (ks *Controller) Changed(ctx context.Context, sku string) {
	if !ks.wake(sku, keeper.Inspect) {
		ks.bus.hint(ctx, sku)
	}
}

// Offered says that a sale is new, or on again: it needs a keeper.
func (ks *Controller) Offered(ctx context.Context, sku string) {
	ks.lookForFree()
	ks.bus.hint(ctx, sku)
}

func (ks *Controller) lookForFree() {
	select {
	case ks.reassign <- struct{}{}:
	default: // it is about to look anyway
	}
}

// tell gives a keeper's verdicts to those who wait: here at once, elsewhere by
// message.
func (ks *Controller) tell(ctx context.Context, verdicts []orders.Decision) {
	here := make([]Notice, 0, len(verdicts))
	var elsewhere map[string][]Notice
	for _, v := range verdicts {
		t := Notice{ID: v.Queued.OrderID, Order: v.Order, Refused: v.Refused}
		switch node := v.Queued.Node; node {
		case ks.node:
			here = append(here, t)
		case "":
		default:
			if elsewhere == nil {
				elsewhere = map[string][]Notice{}
			}
			elsewhere[node] = append(elsewhere[node], t)
		}
	}
	ks.deliver(here...)
	ks.bus.tell(ctx, elsewhere)
}

// hintChannel is where nodes publish a SKU whose keeper should look at
// everything: orders of it were closed or paid, or it is a new sale, or has
// other terms. "": there are SKUs that nobody keeps.
const hintChannel = "orders:hint"

// noticeChannel is where a keeper tells a node what became of its callers' orders.
func noticeChannel(node string) string { return "orders:notice:" + node }

// A bus carries hints between nodes, over one Pub/Sub connection each. Any of
// them may be lost: whoever gets one also looks by itself, only later.
type bus struct {
	rdb     redis.UniversalClient
	keepers *Controller
}

// Run listens until ctx ends, reconnecting as often as needed.
func (b *bus) Run(ctx context.Context) error {
	sub := b.rdb.Subscribe(ctx, inventory.WakeChannel, hintChannel, noticeChannel(b.keepers.node))
	defer func() { _ = sub.Close() }()
	messages := sub.Channel(redis.WithChannelSize(1024))
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			b.receive(m)
		}
	}
}

func (b *bus) receive(m *redis.Message) {
	switch {
	case m.Channel == inventory.WakeChannel:
		b.keepers.wake(m.Payload, keeper.Drain) // its queue is no longer empty
	case m.Channel == hintChannel:
		b.keepers.follow(m.Payload)
	case strings.HasPrefix(m.Channel, noticeChannel("")):
		var wire []wireNotice
		if json.Unmarshal([]byte(m.Payload), &wire) == nil {
			outcomes := make([]Notice, len(wire))
			for i, t := range wire {
				outcomes[i] = Notice{ID: t.ID, Order: (*orders.Order)(t.Order), Refused: t.Refused}
			}
			b.keepers.deliver(outcomes...)
		}
	}
}

// A wireNotice is a Notice with every column of the row, not as the API shows it.
type wireNotice struct {
	ID      string
	Order   *wireOrder    `json:",omitempty"`
	Refused orders.Reason `json:",omitempty"`
}

type wireOrder orders.Order

// tell publishes outcomes to the nodes whose callers wait, one message a node.
// Callers whose message is lost look for themselves.
func (b *bus) tell(ctx context.Context, byNode map[string][]Notice) {
	var errs []error
	for node, outcomes := range byNode {
		wire := make([]wireNotice, len(outcomes))
		for i, t := range outcomes {
			wire[i] = wireNotice{ID: t.ID, Order: (*wireOrder)(t.Order), Refused: t.Refused}
		}
		payload, err := json.Marshal(wire)
		if err == nil {
			err = b.rdb.Publish(ctx, noticeChannel(node), payload).Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tell node %s: %w", node, err))
		}
	}
	if len(byNode) > 0 {
		b.keepers.loops["bus"].Ended(ctx, errors.Join(errs...))
	}
}

// hint has the keeper of sku look, on whichever node; see hintChannel.
func (b *bus) hint(ctx context.Context, sku string) {
	if !b.keepers.redis.away() { // nobody waits for a Redis that is away
		b.keepers.loops["bus"].Ended(ctx, b.rdb.Publish(ctx, hintChannel, sku).Err())
	}
}

// A Notice is what became of a reserved order: a row, or a refusal.
type Notice struct {
	ID      string        // as it was reserved
	Order   *orders.Order // may be another one: the first under the same key
	Refused orders.Reason // instead of Order
}
