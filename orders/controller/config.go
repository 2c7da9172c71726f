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

// Config configures a Controller. All fields are required.
type Config struct {
	Store *store.Store
	Gate  Gate
	Redis redis.UniversalClient
	Locks lease.Locker // decides which node keeps a SKU; the controller calls its Run
	Clock func() time.Time
	Log   *slog.Logger
	// Prefix is the first part of the names of locks, keys and channels. "" for none.
	Prefix string
	// Deliver receives the notices for orders whose callers wait on this node. It must not
	// block.
	Deliver  func(...Notice)
	OnCommit func(*keeper.Commit) // receives each commit, for metrics and traces; OnCommit must not block
	Keeper   KeeperConfig
	Direct   DirectConfig
}

// Limits of a node.
const (
	MaxBatch = 500 // maximum number of orders in a transaction; a gate's script takes at most 500 ids
	Workers  = 24  // maximum number of passes at once, except passes that only drain a queue
)

// KeeperConfig configures the keepers. A zero field means its default.
type KeeperConfig struct {
	// Lease is the time within which the SKUs of a dead node are taken over. Default 5 s.
	Lease time.Duration
	// ResyncEvery is the interval of resyncs, and so the delay that a lost hint causes.
	// Default 1 s.
	ResyncEvery time.Duration
	// ReconcileEvery is the interval at which the sums of a gate in use are compared with
	// the database's. Default 1 s.
	ReconcileEvery time.Duration
	// ReconcileHoldsEvery is the interval at which each gate is compared with the database
	// order by order, even if it has not changed. Default 10 min.
	ReconcileHoldsEvery time.Duration
}

// WithDefaults returns c with defaults for all fields that are zero or negative.
func (c KeeperConfig) WithDefaults() KeeperConfig {
	c.Lease = cmp.Or(max(c.Lease, 0), 5*time.Second)
	c.ResyncEvery = cmp.Or(max(c.ResyncEvery, 0), time.Second)
	c.ReconcileEvery = cmp.Or(max(c.ReconcileEvery, 0), time.Second)
	c.ReconcileHoldsEvery = cmp.Or(max(c.ReconcileHoldsEvery, 0), 10*time.Minute)
	c.ResyncEvery = min(c.ResyncEvery, c.ReconcileEvery, c.ReconcileHoldsEvery)
	return c
}

// LockLease returns the time to live of a SKU's lock. It is shorter than the lease, because
// other nodes need time to notice that the lock is free.
func (c KeeperConfig) LockLease() time.Duration {
	c = c.WithDefaults()
	return c.Lease - 2*c.assignEvery()
}

// assignEvery returns the interval at which a node looks for free locks.
func (c KeeperConfig) assignEvery() time.Duration { return c.Lease / 20 }

// maxBeatEvery is the maximum interval of a node's heartbeats. A short lease makes them more
// frequent. A heartbeat also returns the live nodes, so it notices nodes that come and go.
const maxBeatEvery = time.Second

// DirectConfig configures direct mode. A zero field means its default.
type DirectConfig struct {
	// EnterAfter is the time for which a sale's Redis master must refuse writes before the sale
	// enters direct mode, and accept writes before a keeper takes the sale over again. If
	// the master does not answer at all, it can take up to twice as long. Default 3 s.
	EnterAfter time.Duration
	// MaxOrders is the maximum number of direct orders in progress on a node, which protects the
	// database. Further orders are refused with inventory.ErrBusy. Default 256.
	MaxOrders int
}

// WithDefaults returns c with defaults for all fields that are zero or negative.
func (c DirectConfig) WithDefaults() DirectConfig {
	c.EnterAfter, c.MaxOrders = cmp.Or(max(c.EnterAfter, 0), 3*time.Second), cmp.Or(max(c.MaxOrders, 0), 256)
	return c
}

// contraryProbes is the minimum number of consecutive probes that change the state of a
// master.
const contraryProbes = 4

// probeEvery returns the interval of probes. It is shorter than the lease, because a probe
// counts as progress of an idle keeper.
func (c DirectConfig) probeEvery(lease time.Duration) time.Duration {
	return min(time.Second, c.EnterAfter/contraryProbes, lease/4)
}
