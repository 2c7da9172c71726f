package lock

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Client takes locks in one Redis: a server, a Cluster, or a master that
// Sentinel watches. It starts no goroutine of its own: without Run its locks are
// good for one lease, and its waiters hear of no release.
//
// A Client is safe for concurrent use.
type Client struct {
	store
	leases *Leases
	waits  *waits
}

var _ Locker = (*Client)(nil)

// store is what a lock in Redis is made of, without waiting.
type store struct {
	rdb     redis.UniversalClient
	cfg     Config
	scripts scripts
	reach   string // as in acquire.lua
	// Questions and releases apart: go-redis may repeat a question by itself, a
	// release never.
	asking, erasing *sender
}

func newStore(rdb redis.UniversalClient, cfg Config) store {
	s := store{rdb: rdb, cfg: cfg.WithDefaults(), scripts: newScripts(), reach: "0"}
	if _, alone := rdb.(*redis.Client); alone {
		s.reach = "1"
	}
	s.asking, s.erasing = newSender(rdb, s.cfg.Timeout, false), newSender(rdb, s.cfg.Timeout, true)
	return s
}

// New returns a Client on rdb. It panics on a Config that Validate refuses.
func New(rdb redis.UniversalClient, cfg Config) *Client {
	c := &Client{store: newStore(rdb, cfg)}
	c.leases = NewLeases(&c.store, cfg)
	c.waits = newWaits(rdb, rand.Text())
	return c
}

// Run renews every lock that the client holds at a third of its lease, in
// pipelines, and listens on one connection for locks that are handed to it,
// until ctx ends. It is one loop and one listener however many locks there are.
// It returns nil, or an error if it has been called before.
//
// When it returns, every lock that is still held is lost: their contexts end
// with ErrStopped as the reason, waiters get ErrStopped, and nothing more can be
// acquired. What was not released stays taken until its lease ends, so a program
// that stops releases its locks first.
func (c *Client) Run(ctx context.Context) error {
	listening, stop := make(chan struct{}), context.CancelFunc(nil)
	ctx, stop = context.WithCancel(ctx)
	defer func() { stop(); <-listening }()
	go func() {
		defer close(listening)
		c.waits.listen(ctx, c.cfg.Logger)
	}()
	return c.leases.Run(ctx)
}

// Forever is what Remaining reports for a key that never expires. No Client
// leaves one: somebody else wrote it, and only they can remove it.
const Forever = time.Duration(math.MaxInt64)

// Remaining is the Locker's, in one round trip.
func (c *Client) Remaining(ctx context.Context, keys ...string) ([]time.Duration, error) {
	return c.remaining(ctx, keys)
}

func (s store) remaining(ctx context.Context, keys []string) ([]time.Duration, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("remaining time of %d locks: %w", len(keys), err)
	}
	left := make([]time.Duration, len(keys))
	for i, cmd := range cmds {
		// go-redis hands Redis's -1 and -2 on as that many nanoseconds.
		switch d := cmd.(*redis.DurationCmd).Val(); d {
		case -2:
			left[i] = 0
		case -1:
			left[i] = Forever
		default:
			left[i] = max(d, time.Millisecond) // its last millisecond reads as 0
		}
	}
	return left, nil
}
