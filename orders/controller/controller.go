package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// Config of a Controller. All of it is required but OnCommit.
type Config struct {
	Store *store.Store
	Gate  Gate
	Redis redis.UniversalClient
	Locks lease.Locker // says who keeps a SKU; its Run is run here
	Clock func() time.Time
	Log   *slog.Logger
	// Deliver hears what became of orders whose callers wait on this node. It must
	// not block.
	Deliver  func(...Notice)
	OnCommit func(*keeper.Commit) // hears of each transaction, for metrics and traces; it must not block
	Keeper   KeeperConfig
	Direct   DirectConfig
}

// New returns the controller of a node. It keeps nothing until Run runs.
func New(cfg Config) *Controller {
	probeEvery := cfg.Direct.probeEvery(cfg.Keeper.Lease)
	ks := &Controller{
		node: cfg.Store.Node, store: cfg.Store, gate: cfg.Gate, rdb: cfg.Redis, locks: cfg.Locks, loops: newLoops(cfg.Log),
		// As long as it takes a master that does not answer to be down.
		redis: &redisHealth{gate: cfg.Gate, lasts: int(cfg.Direct.After / probeEvery)}, probeEvery: probeEvery,
		catalog: store.NewCatalog(cfg.Store, cfg.Clock),
		deliver: cfg.Deliver, report: cfg.OnCommit, log: cfg.Log, cfg: cfg.Keeper,
		reassign: make(chan struct{}, 1),
		slots:    map[string]*slot{}, backoffUntil: map[string]time.Time{}, handedOverAt: map[string]time.Time{},
		signal: make(chan struct{}, draining+cfg.Keeper.Workers), busy: make(chan struct{}, cfg.Keeper.Workers),
	}
	ks.Commits = keeper.NewGroupCommit(cfg.Store, cfg.Keeper.Batch, cfg.Keeper.Workers, cfg.Keeper.Lease/4, &ks.count)
	return ks
}

// Run keeps SKUs until ctx ends. It ends in two steps: SKUs are handed over while
// locks and messages still work.
func (ks *Controller) Run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var base, loops errgroup.Group
	base.Go(func() error { return ks.locks.Run(under) })
	base.Go(func() error { return ks.listen(under) })
	loops.Go(func() error { return ks.loops["catalog"].Every(ctx, store.CatalogEvery, ks.catalog.Renew) })
	loops.Go(func() error { return ks.keep(ctx) })
	loops.Go(func() error { return ks.loops["probe"].Every(ctx, ks.probeEvery, ks.probe) })
	err := loops.Wait()
	stop()
	return errors.Join(err, base.Wait())
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

// RequestRelease has the keeper of sku, here or elsewhere, look at orders that were closed
// or paid.
func (ks *Controller) RequestRelease(ctx context.Context, sku string) {
	ks.ask(ctx, sku, keeper.Release)
}

// RequestInspect has the keeper of sku compare the gate with the database.
func (ks *Controller) RequestInspect(ctx context.Context, sku string) {
	ks.ask(ctx, sku, keeper.Inspect)
}

func (ks *Controller) ask(ctx context.Context, sku string, todo keeper.Work) {
	if !ks.wake(sku, todo) {
		ks.hint(ctx, sku)
	}
}

// RequestKeeper says that a sale is new, or on again: it needs a keeper.
func (ks *Controller) RequestKeeper(ctx context.Context, sku string) {
	ks.lookForFree()
	ks.hint(ctx, sku)
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
	here, elsewhere := make([]Notice, 0, len(verdicts)), map[string][]Notice{}
	for _, v := range verdicts {
		t := Notice{ID: v.Queued.OrderID, Order: v.Order, Refused: v.Refused}
		switch node := v.Queued.Node; node {
		case ks.node:
			here = append(here, t)
		case "":
		default:
			elsewhere[node] = append(elsewhere[node], t)
		}
	}
	ks.deliver(here...)
	ks.publish(ctx, elsewhere)
}

// hintChannel is where nodes publish a SKU whose keeper should look at
// everything: orders of it were closed or paid, or it is a new sale, or has
// other terms. "": there are SKUs that nobody keeps.
const hintChannel = "orders:hint"

// noticeChannel is where a keeper tells a node what became of its callers' orders.
func noticeChannel(node string) string { return "orders:notice:" + node }

// listen hears the messages of other nodes until ctx ends, reconnecting as often
// as needed. Any of them may be lost: whoever gets one also looks by itself, only
// later.
func (ks *Controller) listen(ctx context.Context) error {
	sub := ks.rdb.Subscribe(ctx, inventory.WakeChannel, hintChannel, noticeChannel(ks.node))
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
			ks.receive(m)
		}
	}
}

func (ks *Controller) receive(m *redis.Message) {
	switch m.Channel {
	case inventory.WakeChannel:
		ks.wake(m.Payload, keeper.Drain) // its queue is no longer empty
	case hintChannel:
		ks.follow(m.Payload)
	default: // the node's own
		var outcomes []Notice
		if json.Unmarshal([]byte(m.Payload), &outcomes) == nil {
			ks.deliver(outcomes...)
		}
	}
}

// publish sends outcomes to the nodes whose callers wait, one message a node.
// Callers whose message is lost look for themselves.
func (ks *Controller) publish(ctx context.Context, byNode map[string][]Notice) {
	var errs []error
	for node, outcomes := range byNode {
		payload, err := json.Marshal(outcomes)
		if err == nil {
			err = ks.rdb.Publish(ctx, noticeChannel(node), payload).Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("tell node %s: %w", node, err))
		}
	}
	if len(byNode) > 0 {
		ks.loops["bus"].Ended(ctx, errors.Join(errs...))
	}
}

// hint has the keeper of sku look, on whichever node; see hintChannel.
func (ks *Controller) hint(ctx context.Context, sku string) {
	if !ks.redis.away() { // nobody waits for a Redis that is away
		ks.loops["bus"].Ended(ctx, ks.rdb.Publish(ctx, hintChannel, sku).Err())
	}
}

// A Notice is what became of a reserved order: a row, or a refusal. To another node
// it goes with every column of the row, not as the API shows it.
type Notice struct {
	ID      string        // as it was reserved
	Order   *orders.Order `json:",omitempty"` // may be another one: the first under the same key
	Refused orders.Reason `json:",omitempty"` // instead of Order
}
