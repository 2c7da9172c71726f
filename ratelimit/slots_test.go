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

// onSlots runs a test with one call per bucket: on the plain stores by force,
// and on a Redis Cluster (of one node, with all the slots: it refuses a script
// that touches two).
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
			t.Fatalf("first: %+v", r)
		}
		if r := allow(t, l, 3, buyer, ip, sku); r.Allowed || r.Bucket != "sku" || r.Remaining != 1 || r.RetryAfter == 0 {
			t.Fatalf("second: %+v", r)
		}
		for _, b := range []struct {
			Bucket
			left int64
		}{{buyer, 6}, {ip, 5}, {sku, 1}} {
			if r := allow(t, l, 1, b.Bucket); r.Remaining != b.left-1 {
				t.Errorf("%s has %d left, not %d", b.Name, r.Remaining+1, b.left)
			}
		}
	})
}

// Many callers with buckets in common: what is missing from each bucket in the
// end is exactly what was allowed.
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
			t.Errorf("%d allowed of %d, %d failed", allowed.Load(), stock, failed.Load())
		}
		value, err := l.client.Get(t.Context(), forBuyer("b1", far).key(defaultPrefix)).Result()
		check.Must(t, err)
		var stamp, debt, unit float64
		if _, err := fmt.Sscan(value, &stamp, &debt, &unit); err != nil || math.Abs(debt/unit-stock) > 0.01 {
			t.Errorf("the buyer's bucket lacks %v tokens, not %d: %v", debt/unit, stock, err)
		}
	})
}

// The twin: one call for all buckets, which a cluster refuses.
func TestClusterRefusesOneCallForAll(t *testing.T) {
	t.Parallel()
	l := New(startCluster(t), patient)
	l.perSlot = false
	_, err := l.Allow(t.Context(), 1, forBuyer("b1", parse(t, "5/s")), forSKU("s1", parse(t, "5/s")))
	if err == nil || !strings.Contains(err.Error(), "slot") {
		t.Fatalf("two slots in one script: %v", err)
	}
}

// A failed call may or may not have taken: the others' tokens come back, its
// own don't, and the caller hears of it.
func TestSlotsWhenOneCallFails(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		l.perSlot = true
		buyer, sku := forBuyer("b1", parse(t, "1/h:9")), forSKU("s1", parse(t, "1/h:9"))
		allow(t, l, 1, buyer, sku)
		client.AddHook(failing{key: sku.key(defaultPrefix)})
		if _, err := l.Allow(t.Context(), 1, buyer, sku); err == nil {
			t.Fatal("no error")
		}
		if n := left(t, client, buyer); n != 8 {
			t.Errorf("the buyer has %d tokens left, not 8", n)
		}
	})
}

// A give-back is not sent again after a timeout; a take is.
func TestGiveBackIsSentOnce(t *testing.T) {
	_, client := startEmbedded(t)
	loaded(t, client)
	l := New(client, patient)
	l.perSlot = true
	buyer, sku := forBuyer("b1", parse(t, "1/h:9")), forSKU("s1", parse(t, "1/h:1"))
	allow(t, l, 1, buyer, sku)
	g := newGate(client)
	close(g.open)
	allow(t, l, 1, buyer, sku)
	if len(g.commands) != 3 {
		t.Fatalf("%d commands, not two takes and a give-back", len(g.commands))
	}
	for i, once := range []bool{false, false, true} {
		if g.commands[i].NoRetry() != once {
			t.Errorf("command %d: %v", i, g.commands[i].Args())
		}
	}
}

// A give-back that comes late, when the bucket has been full in between, must
// not give out twice what came in: else two requests of a rate of 10,000/s with
// a burst of 1 pass at once. The twin gives back all that was taken.
func TestGivingBackKeepsTheBound(t *testing.T) {
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
		var taken []ask // to be given back some time
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
				continue // it may be refused for what is on its way back
			}
			if rapid.Bool().Draw(rt, "keep") {
				history = append(history, moment{now.Sub(epoch), a.cost, true})
			} else {
				taken = append(taken, ask{cost: -a.cost, buckets: on, taken: now.UnixMicro()})
			}
		}
		return judge(history, l, 0)
	}
	rapid.Check(t, func(rt *rapid.T) {
		check.Must(rt, one(rt, false))
	})
	for seed := range 500 {
		if err := rapid.Custom(func(rt *rapid.T) error { return one(rt, true) }).Example(seed); err != nil {
			t.Logf("the twin is caught: %v", err)
			return
		}
	}
	t.Error("giving back all goes unnoticed")
}

// The script gets loaded when Redis doesn't know it, also when it forgets it
// later.
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
					t.Errorf("%d left after a grant, want 9", n)
				}
			}
		}
	})
}

// A cluster's client is known also where a program has it in its own.
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
			t.Errorf("client %d: a call per slot %t", i, l.perSlot)
		}
	}
}
