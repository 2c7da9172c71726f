package ratelimit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/limit"
)

// onSlots runs test with one call per bucket: on the plain stores, and on a Redis Cluster
// of one node, which rejects a script with keys of two slots.
func onSlots(t *testing.T, test func(t *testing.T, l *Limiter)) {
	forced := func(client redis.UniversalClient) *Limiter {
		l := New(client, patient)
		l.perSlot = true
		return l
	}
	t.Run("embedded", func(t *testing.T) {
		_, client := startEmbedded(t)
		test(t, forced(client))
	})
	t.Run("real", func(t *testing.T) { test(t, forced(startReal(t))) })
	t.Run("cluster", func(t *testing.T) { test(t, New(startCluster(t), patient)) })
}

func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	addr := servertest.OpenRedisCluster(t, 1).Nodes[0].Addr()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = cluster.Close() })
	return cluster
}

func TestSlotsTakeFromAllOrNone(t *testing.T) {
	t.Parallel()
	onSlots(t, func(t *testing.T, l *Limiter) {
		buyer, ip, sku := forBuyer("b1", parse(t, "1/h:9")), forIP("192.0.2.1", parse(t, "1/h:8")), forSKU("s1", parse(t, "1/h:4"))
		if r := allow(t, l, 3, buyer, ip, sku); !r.Allowed || r.Bucket != "sku" || r.Remaining != 1 {
			t.Fatalf("first request: got %+v, want allowed with 1 left", r)
		}
		if r := allow(t, l, 3, buyer, ip, sku); r.Allowed || r.Bucket != "sku" || r.Remaining != 1 || r.RetryAfter == 0 {
			t.Fatalf("second request: got %+v, want refused by the SKU's bucket", r)
		}
		for _, b := range []struct {
			Bucket
			left int64
		}{{buyer, 6}, {ip, 5}, {sku, 1}} {
			if r := allow(t, l, 1, b.Bucket); r.Remaining != b.left-1 {
				t.Errorf("bucket %s: got %d tokens left, want %d", b.Name, r.Remaining+1, b.left)
			}
		}
	})
}

// Many callers share buckets. At the end, each bucket lacks exactly the tokens of the
// allowed requests.
func TestSlotsUnderLoad(t *testing.T) {
	t.Parallel()
	onSlots(t, func(t *testing.T, l *Limiter) {
		const stock = 100
		sku, far := forSKU("s1", parse(t, "1/h:100")), parse(t, "1/h:1000")
		var allowed, failed atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for range 10 {
					r, err := l.Allow(t.Context(), 1, forBuyer("b1", far), sku)
					switch {
					case err != nil:
						failed.Add(1)
					case r.Allowed:
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if failed.Load() != 0 || allowed.Load() != stock {
			t.Errorf("limiter under load: got %d requests allowed, want %d; got %d failed, want 0", allowed.Load(), stock, failed.Load())
		}
		value, err := l.client.Get(t.Context(), forBuyer("b1", far).key(defaultPrefix)).Result()
		check.Must(t, err)
		var stamp, debt, unit float64
		if _, err := fmt.Sscan(value, &stamp, &debt, &unit); err != nil || math.Abs(debt/unit-stock) > 0.01 {
			t.Errorf("bucket of the buyer: got %v tokens taken, want %d (error %v)", debt/unit, stock, err)
		}
	})
}

// The broken twin makes one call for all buckets, and a cluster rejects it.
func TestClusterRejectsOneCallForAllBuckets(t *testing.T) {
	t.Parallel()
	l := New(startCluster(t), patient)
	l.perSlot = false
	_, err := l.Allow(t.Context(), 1, forBuyer("b1", parse(t, "5/s")), forSKU("s1", parse(t, "5/s")))
	if err == nil || !strings.Contains(err.Error(), "slot") {
		t.Fatalf("two slots in one script: got error %v, want an error about slots", err)
	}
}

// It is unknown whether a failed call took tokens. Tokens of the other buckets are given
// back, its own are not, and the caller receives an error.
func TestSlotsWhenOneCallFails(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		l.perSlot = true
		buyer, sku := forBuyer("b1", parse(t, "1/h:9")), forSKU("s1", parse(t, "1/h:9"))
		allow(t, l, 1, buyer, sku)
		client.AddHook(failing{key: sku.key(defaultPrefix)})
		if _, err := l.Allow(t.Context(), 1, buyer, sku); err == nil {
			t.Fatal("Allow whose answer is lost: got no error, want one")
		}
		if n := left(t, client, buyer); n != 8 {
			t.Errorf("bucket of the buyer: got %d tokens left, want 8", n)
		}
	})
}

// go-redis does not repeat a give-back after a timeout, but it repeats a take.
func TestGiveBackIsSentOnce(t *testing.T) {
	_, client := startEmbedded(t)
	loaded(t, client)
	l := New(client, patient)
	l.perSlot = true
	buyer, sku := forBuyer("b1", parse(t, "1/h:9")), forSKU("s1", parse(t, "1/h:1"))
	allow(t, l, 1, buyer, sku)
	g := newDelay(client)
	close(g.open)
	allow(t, l, 1, buyer, sku)
	if len(g.commands) != 3 {
		t.Fatalf("limiter: got %d commands, want two takes and a give-back", len(g.commands))
	}
	for i, once := range []bool{false, false, true} {
		if g.commands[i].NoRetry() != once {
			t.Errorf("command %d, %v: got NoRetry %v, want %v", i, g.commands[i].Args(), !once, once)
		}
	}
}

// If tokens are given back late, the bucket may have been full in between. Refilled
// tokens must not be given out twice: at a rate of 10,000/s and a burst of 1, two
// requests would pass at once. The broken twin gives back everything that was taken.
func TestGiveBackKeepsTheBound(t *testing.T) {
	t.Parallel()
	server, client := startEmbedded(t)
	limiter := New(client, patient)
	one := func(rt *rapid.T, all bool) error {
		server.FlushAll()
		now := epoch
		server.SetTime(now)
		l := drawLimit(rt)
		on := []Bucket{forBuyer("b1", l)}
		var history []moment
		var taken []ask // to be given back later
		for range rapid.IntRange(2, 30).Draw(rt, "steps") {
			now = now.Add(drawPause(rt, []limit.Limit{l}))
			server.SetTime(now)
			if len(taken) > 0 && rapid.Bool().Draw(rt, "give back") {
				back := taken[0]
				taken = taken[1:]
				if all {
					back.taken = now.UnixMicro()
				}
				limiter.take(context.Background(), []ask{back})
				continue
			}
			a := ask{cost: rapid.Int64Range(1, l.Burst()).Draw(rt, "cost"), buckets: on}
			if !limiter.take(context.Background(), []ask{a})[0].taken {
				continue // refused because of tokens that are not given back yet
			}
			if rapid.Bool().Draw(rt, "keep") {
				history = append(history, moment{now.Sub(epoch), a.cost, true})
			} else {
				taken = append(taken, ask{cost: -a.cost, buckets: on, taken: now.UnixMicro()})
			}
		}
		return checkBound(history, l, 0)
	}
	rapid.Check(t, func(rt *rapid.T) {
		check.Must(rt, one(rt, false))
	})
	for seed := range 500 {
		if err := rapid.Custom(func(rt *rapid.T) error { return one(rt, true) }).Example(seed); err != nil {
			t.Logf("the twin fails: %v", err)
			return
		}
	}
	t.Error("twin that gives all tokens back: it passes, so the check proves nothing")
}

// The script is loaded if Redis does not know it, or has lost it.
func TestScriptIsLoadedWhenMissing(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		for _, perSlot := range []bool{false, true} {
			l := New(client, patient)
			l.perSlot = perSlot
			for range 2 {
				check.Must(t, client.ScriptFlush(t.Context()).Err())
				r := allow(t, l, 1, forBuyer("b1", parse(t, "1/h:9")), forSKU("s1", parse(t, "1/h:9")))
				check.Must(t, client.ScriptFlush(t.Context()).Err())
				check.Must(t, l.GiveBack(t.Context(), r, 1, forBuyer("b1", parse(t, "1/h:9"))))
				check.Must(t, client.ScriptFlush(t.Context()).Err())
				check.Must(t, l.Grant(t.Context(), 1, forSKU("s1", parse(t, "1/h:9"))))
				if n := left(t, client, forSKU("s1", parse(t, "1/h:9"))); n != 9 {
					t.Errorf("bucket after a grant: got %d tokens left, want 9", n)
				}
			}
		}
	})
}

// New recognises the client of a cluster also if it is embedded.
func TestEmbeddedClient(t *testing.T) {
	one, ring := redis.NewClient(&redis.Options{}), redis.NewRing(&redis.RingOptions{})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}})
	defer func() { _, _, _ = one.Close(), ring.Close(), cluster.Close() }()
	for i, c := range []struct {
		client  redis.UniversalClient
		perSlot bool
	}{
		{one, false}, {struct{ *redis.Client }{one}, false},
		{cluster, true}, {struct{ *redis.ClusterClient }{cluster}, true},
		{ring, true}, {struct{ *redis.Ring }{ring}, true},
	} {
		if l := New(c.client, patient); l.perSlot != c.perSlot {
			t.Errorf("client %d: got perSlot %t, want %t", i, l.perSlot, c.perSlot)
		}
	}
}
