package controller

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/keeper"
	"flashsale/orders/lock/lease"
	"flashsale/orders/store"
)

// Config of a Controller. All fields are required.
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

// Limits of a node.
const (
	Batch   = 500 // orders per transaction: the gate's scripts take no more ids at once
	Workers = 24  // SKUs that a node serves at once, beside those that only have orders to commit
)

// KeeperConfig of the keepers. The zero value means the defaults.
type KeeperConfig struct {
	Lease time.Duration // a dead node's SKUs are taken over within it. Default 5 s
	// ResyncEvery is how long a hint that got lost goes unnoticed. Default 1 s.
	ResyncEvery time.Duration
	// ReconcileEvery is how often the sums of a gate that is in use are compared
	// with the database's. Default 1 s.
	ReconcileEvery time.Duration
	// ReconcileHoldsEvery is how often the gate is compared with the database
	// order by order, whether or not it has changed. Default 10 min.
	ReconcileHoldsEvery time.Duration
}

// WithDefaults returns c with the defaults for what is missing.
func (c KeeperConfig) WithDefaults() KeeperConfig {
	// What is below zero was not given, either.
	c.Lease = cmp.Or(max(c.Lease, 0), 5*time.Second)
	c.ResyncEvery = cmp.Or(max(c.ResyncEvery, 0), time.Second)
	c.ReconcileEvery = cmp.Or(max(c.ReconcileEvery, 0), time.Second)
	c.ReconcileHoldsEvery = cmp.Or(max(c.ReconcileHoldsEvery, 0), 10*time.Minute)
	c.ResyncEvery = min(c.ResyncEvery, c.ReconcileEvery, c.ReconcileHoldsEvery)
	return c
}

// LockLease is the time to live of a SKU's lock: shorter than the lease by
// the time that the others need to notice that it is free.
func (c KeeperConfig) LockLease() time.Duration {
	c = c.WithDefaults()
	return c.Lease - 2*c.assignEvery()
}

// assignEvery is how often a node looks for locks that are free.
func (c KeeperConfig) assignEvery() time.Duration { return c.Lease / 20 }

// maxBeatEvery is how often a node says that it is there; oftener with a short
// lease. So often does it learn who comes and goes, too.
const maxBeatEvery = time.Second

// DirectConfig of direct mode. The zero value means the defaults.
type DirectConfig struct {
	// After is for how long the master of a sale's gate must have taken no writes
	// before the sale is sold in direct mode, and how long it must have taken them
	// again before a keeper takes the sale over. Up to twice as long where Redis
	// does not even refuse. Default 3 s.
	After time.Duration
	// Max bounds the buyers of one node who are in direct mode at once: the
	// database must not be run over. Others hear inventory.ErrBusy. Default 256.
	Max int
}

// WithDefaults returns c with the defaults for what is missing.
func (c DirectConfig) WithDefaults() DirectConfig {
	c.After, c.Max = cmp.Or(max(c.After, 0), 3*time.Second), cmp.Or(max(c.Max, 0), 256)
	return c
}

// contraryProbes are how many probes in a row change what is known of a master,
// at least.
const contraryProbes = 4

// probeEvery is how often a node writes to the masters: often enough for a
// keeper to live by it.
func (c DirectConfig) probeEvery(lease time.Duration) time.Duration {
	return min(time.Second, c.After/contraryProbes, lease/4)
}
