package auth

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const (
	// cacheEntries bounds the tokens remembered: at 150 bytes each, and as
	// much again for the map, some 20 MB when full.
	cacheEntries = 65_536
	// shards keep callers on different cores off one lock.
	shards = 64
)

// cache remembers verified tokens by their full text, signature included.
type cache struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	most    int
	entries map[string]Identity
	_       [40]byte // a cache line to each lock
}

func newCache(entries int) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].most = max(entries/shards, 1)
		c.shards[i].entries = make(map[string]Identity)
	}
	return c
}

func (c *cache) shard(token string) *shard {
	return &c.shards[maphash.String(c.seed, token)%shards]
}

// get returns who a remembered token speaks for, until the token expires.
func (c *cache) get(token string, now time.Time) (Identity, bool) {
	s := c.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	id, known := s.entries[token]
	if known && !now.Before(id.Expires) {
		delete(s.entries, token)
		return Identity{}, false
	}
	return id, known
}

// put remembers a verified token. Where there is no room, an expired one goes,
// or else any: it costs its owner one parse, and no order of use needs keeping.
func (c *cache) put(token string, id Identity, now time.Time) {
	s := c.shard(token)
	// The token is part of a longer header, which must not be kept with it.
	token = strings.Clone(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) >= s.most {
		s.evict(now)
	}
	s.entries[token] = id
}

// evict removes the expired among a few entries (maps are walked from a random
// place), and one of them in any case.
func (s *shard) evict(now time.Time) {
	var victim string
	looked, removed := 0, false
	for token, id := range s.entries {
		if !now.Before(id.Expires) {
			delete(s.entries, token)
			removed = true
		}
		victim = token
		if looked++; looked == 8 {
			break
		}
	}
	if !removed {
		delete(s.entries, victim)
	}
}

func (c *cache) len() int {
	n := 0
	for i := range c.shards {
		c.shards[i].mu.Lock()
		n += len(c.shards[i].entries)
		c.shards[i].mu.Unlock()
	}
	return n
}
