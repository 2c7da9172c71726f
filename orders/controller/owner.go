package controller

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/store"
)

// Names in Redis contain the SKU alone. If the nodes of two databases used one Redis, a keeper
// would commit the orders of the other database's buyers. Therefore one database owns Redis.
// Redis holds a proof that the database holds, too. One of the owner's nodes replaces the proof
// every second, so a copy of the database soon lacks it. Redis forgets the owner some leases after
// the last renewal.
//
// A node that finds another owner when it starts does not run. The owner's nodes notice it and
// continue. If Redis has lost the proof, two databases may both have owned it. Then their nodes
// continue, and trust neither the gates nor notices of other nodes.

// ErrOtherOwner is returned while another database owns Redis, or has owned it until its nodes
// stopped. ErrShared is returned if the nodes of that database are running, and ErrUnreachable if
// Redis does not answer.
var (
	ErrUnreachable = errors.New("controller: Redis is unreachable")
	ErrOtherOwner  = errors.New("controller: another database owns Redis")
	ErrShared      = errors.New("controller: nodes of another database use this Redis: give each database a Redis or a namespace of its own")
)

// OwnerKey is the key of the owner's proof, and RivalKey the key of a node that has found another
// owner. An account in Redis that may write probes may write these keys.
const (
	OwnerKey = "probe:{owner}"
	RivalKey = OwnerKey + ":rival"
	takenKey = OwnerKey + ":taken" // key that exists for doubtedFor after one database has taken the ownership from another
)

//go:embed owner.lua
var ownerSource string

var ownerScript = redis.NewScript(ownerSource)

const (
	// ownedFor is the number of leases for which the ownership lasts after its last renewal. A
	// single node has that much time to restart before another database can become the owner.
	ownedFor = 6
	// doubtedFor is the time for which no node of either database trusts the gates after one
	// database has taken the ownership from the other.
	doubtedFor = 10 * maxBeatEvery
)

// An owner renews the ownership of Redis for the database of this node.
type owner struct {
	cfg     Config
	catalog *store.Catalog
	leads   func() bool // reports whether this node is the one that replaces the proof

	mu         sync.Mutex // one renewal at a time
	rivalValue string     // value of OwnerKey when another owner was first seen
	knowsProof bool       // this database holds the proof in rivalValue
	replaced   int        // number of times that the owner has replaced a known proof by a known proof
	replacedAt time.Time  // time at which this node has last replaced the proof
	seenAt     time.Time  // time at which rivalValue was recorded
	takenAt    time.Time  // time at which another database had last taken the ownership
	owns       atomic.Bool
	foreign    atomic.Bool  // true if another database owned Redis at the last renewal, and this one has never owned it
	rivalNow   atomic.Value // string: a node of another database that uses this Redis, or ""
}

func newOwner(cfg Config, catalog *store.Catalog, leads func() bool) *owner {
	catalog.DoubtGates(true)
	return &owner{cfg: cfg, catalog: catalog, leads: leads}
}

// every returns the interval of renewals.
func (o *owner) every() time.Duration { return min(maxBeatEvery, o.cfg.Keeper.Lease/4) }

// run renews the ownership until ctx ends. Error: ErrShared.
func (o *owner) run(ctx context.Context, loop *Loop) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	_ = loop.Every(ctx, o.every(), func(ctx context.Context) error {
		err := o.renew(ctx)
		if errors.Is(err, ErrShared) {
			stop(err)
		}
		return err
	})
	if err := context.Cause(ctx); errors.Is(err, ErrShared) {
		return err
	}
	return nil
}

// renew renews the ownership. Errors: ErrOtherOwner, ErrShared, ErrUnreachable, errors of the store.
func (o *owner) renew(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxBeatEvery)
	defer cancel()
	id, err := o.cfg.Store.Identity(ctx)
	if err != nil {
		return err
	}
	lasts, role := ownedFor*o.cfg.Keeper.Lease, "new"
	switch {
	case o.owns.Load():
		role = "owner"
	case o.replaced >= store.KeptProofs:
		role = "same"
	case o.rivalValue != "" && !o.knowsProof:
		role = "rival"
	}
	// Redis holds the newest proof but one, which all nodes have had time to read.
	args := []any{
		lasts.Milliseconds(), role, id.Place, fmt.Sprintf("node %s of the database %s", o.cfg.Store.Node, id.Place),
		doubtedFor.Milliseconds(), id.Proofs[min(1, len(id.Proofs)-1)],
	}
	for _, proof := range id.Proofs {
		args = append(args, proof)
	}
	names := []string{o.cfg.Prefix + OwnerKey, o.cfg.Prefix + RivalKey, o.cfg.Prefix + takenKey}
	reply, err := ownerScript.Run(ctx, o.cfg.Redis, names, args...).Slice()
	if err != nil {
		return fmt.Errorf("renew the ownership of Redis: %w", errors.Join(ErrUnreachable, err))
	}
	other, rival := reply[0].(string), nodeOf(reply[2].(string))
	if other != "" && role != "owner" {
		return o.noteOwner(other, reply[1] == int64(1), lasts)
	}
	o.owns.Store(true)
	o.foreign.Store(false)
	o.catalog.DoubtGates(reply[3] == int64(1))
	doubted := time.Since(o.takenAt) < doubtedFor
	switch {
	case other != "" && doubted: // if it happens once, the database or Redis may have lost a proof
		rival = nodeOf(other)
	case rival == "" && doubted:
		rival = o.rival()
	}
	if other != "" {
		o.takenAt = time.Now()
	}
	o.report(rival)
	if other != "" || !o.leads() || time.Since(o.replacedAt) < o.every()/2 {
		return nil
	}
	o.replacedAt = time.Now()
	return o.cfg.Store.ReplaceProof(ctx, id.Proofs)
}

// noteOwner records the value of another owner. It returns ErrShared if the owner's nodes are running,
// and ErrOtherOwner as long as that is not known.
func (o *owner) noteOwner(other string, known bool, lasts time.Duration) error {
	o.foreign.Store(true)
	switch {
	case o.rivalValue == "" || o.knowsProof != known:
		if o.rivalValue == "" {
			o.cfg.Log.Warn("Redis belongs to another database, or this database has moved: the node waits", "owner", nodeOf(other), "key", o.cfg.Prefix+OwnerKey, "at_most", lasts)
		}
		o.rivalValue, o.knowsProof, o.seenAt, o.replaced = other, known, time.Now(), 0
	case known:
		if proofOf(other) != proofOf(o.rivalValue) {
			o.rivalValue = other
			o.replaced++
		}
	case o.rivalValue != other && time.Since(o.seenAt) > maxBeatEvery, time.Since(o.seenAt) > lasts:
		return fmt.Errorf("%w (the owner is %s)", ErrShared, nodeOf(other))
	}
	return fmt.Errorf("%w: %s", ErrOtherOwner, nodeOf(other))
}

// proofOf returns the proof in a value of OwnerKey.
func proofOf(value string) string { return value[:strings.Index(value+"\n", "\n")] }

// nodeOf returns the node in a value of OwnerKey.
func nodeOf(value string) string { return value[strings.LastIndex(value, "\n")+1:] }

// rival returns a node of another database that uses this Redis, or "".
func (o *owner) rival() string {
	rival, _ := o.rivalNow.Load().(string)
	return rival
}

// report logs a change of rival.
func (o *owner) report(rival string) {
	before, _ := o.rivalNow.Swap(rival).(string)
	switch {
	case before == "" && rival != "":
		o.cfg.Log.Error("nodes of another database use this Redis: stop them, or give each database a Redis or a namespace of its own", "found", rival)
	case before != "" && rival == "":
		o.cfg.Log.Info("nodes of another database no longer use this Redis")
	}
}
