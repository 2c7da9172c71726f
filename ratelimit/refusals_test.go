package ratelimit

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// startRemembering returns a limiter whose clock follows the server's.
func startRemembering(t *testing.T, remember time.Duration) (l *Limiter, server *miniredis.Miniredis, client *redis.Client, pass func(time.Duration)) {
	server, client = startEmbedded(t)
	loaded(t, client)
	now := epoch
	l = New(client, Config{Timeout: time.Hour, Remember: remember, Clock: func() time.Time { return now }})
	return l, server, client, func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
	}
}

// A client is refused ten thousand times with two calls to Redis. The broken twin
// remembers nothing and makes a call each time.
func TestRememberedRefusalsMakeNoCalls(t *testing.T) {
	for _, c := range []struct {
		remember time.Duration
		requests int
		calls    int
	}{{0, 10_000, 2}, {-1, 100, 100}} {
		l, _, client, _ := startRemembering(t, c.remember)
		g := newDelay(client)
		close(g.open)
		buyer, sku := forBuyer("b1", parse(t, "1/h:1")), forSKU("s1", parse(t, "1/s:9"))
		for n := range c.requests {
			r := allow(t, l, 1, sku, buyer)
			if r.Allowed != (n == 0) || n > 0 && (r.Bucket != "buyer" || r.Remaining != 0 || r.RetryAfter != time.Hour || r.Reset != time.Hour) {
				t.Fatalf("request %d: got %+v, want only the first allowed", n, r)
			}
			if r.Remembered != (c.remember == 0 && n > 1) {
				t.Fatalf("request %d: got %+v, want Remembered from the third on", n, r)
			}
		}
		if calls, _, _ := g.seen(); calls != c.calls {
			t.Errorf("Remember %v: got %d calls for %d requests, want %d", c.remember, calls, c.requests, c.calls)
		}
	}
}

// A remembered refusal ends exactly when the token is due. It also ends after
// Config.Remember, because another node may have filled the bucket.
func TestRememberedRefusalEnds(t *testing.T) {
	l, _, client, pass := startRemembering(t, 0)
	second, hour := forBuyer("b1", parse(t, "1/s:1")), forBuyer("b2", parse(t, "1/h:1"))
	for _, b := range []Bucket{second, hour} {
		allow(t, l, 1, b)
		if r := allow(t, l, 1, b); r.Allowed || r.Remembered {
			t.Fatalf("first refusal: got %+v, want refused by Redis", r)
		}
	}
	pass(time.Second - time.Microsecond)
	if r := allow(t, l, 1, second); r.Allowed || !r.Remembered || r.RetryAfter != time.Microsecond {
		t.Errorf("request a microsecond too early: got %+v, want refused from memory", r)
	}
	pass(time.Microsecond)
	if r := allow(t, l, 1, second); !r.Allowed {
		t.Errorf("request when the token is due: got %+v, want allowed", r)
	}
	check.Must(t, client.Del(t.Context(), hour.key(defaultPrefix)).Err())
	if r := allow(t, l, 1, hour); r.Allowed || r.RetryAfter != time.Hour-time.Second {
		t.Errorf("request on a bucket filled by another node: got %+v, want refused from memory", r)
	}
	pass(defaultRemember - time.Second)
	if r := allow(t, l, 1, hour); !r.Allowed {
		t.Errorf("request on a bucket filled by another node, after Remember: got %+v, want allowed", r)
	}
}

// A remembered refusal applies to requests of the same or a higher cost, for the same
// bucket and limit only.
func TestRememberedRefusalAppliesToItsBucketOnly(t *testing.T) {
	l, _, _, _ := startRemembering(t, 0)
	five := forBuyer("b1", parse(t, "1/h:5"))
	allow(t, l, 5, five)
	allow(t, l, 2, five) // refused
	if r := allow(t, l, 3, five); r.Allowed || !r.Remembered || r.RetryAfter != 3*time.Hour {
		t.Errorf("request with a higher cost: got %+v, want refused from memory for 3 h", r)
	}
	if r := allow(t, l, 5, five, forSKU("s1", parse(t, "1/h:9"))); r.Allowed || !r.Remembered {
		t.Errorf("request on this and another bucket: got %+v, want refused from memory", r)
	}
	if r := allow(t, l, 1, five); r.Remembered {
		t.Errorf("request with a lower cost: got %+v, want the answer of Redis", r)
	}
	for name, r := range map[string]Result{
		"another bucket":                allow(t, l, 3, forBuyer("b2", five.Limit)),
		"another limit":                 allow(t, l, 3, forBuyer("b1", parse(t, "1/h:50"))),
		"another name with the same id": allow(t, l, 3, forSKU("b1", five.Limit)),
	} {
		if !r.Allowed {
			t.Errorf("request, %s: got %+v, want allowed", name, r)
		}
	}
}

// Another node may take the tokens that are left in a refusing bucket. The next refusal
// must show that.
func TestRefusalWithTokensLeftIsNotRemembered(t *testing.T) {
	l, _, client, _ := startRemembering(t, 0)
	ten := forBuyer("b1", parse(t, "1/s:10"))
	allow(t, l, 3, ten)
	if r := allow(t, l, 10, ten); r.Allowed || r.Remaining != 7 || r.RetryAfter != 3*time.Second {
		t.Fatalf("refusal with tokens left: got %+v, want refused with 7 left", r)
	}
	allow(t, New(client, patient), 7, ten)
	if r := allow(t, l, 10, ten); r.Allowed || r.Remaining != 0 || r.RetryAfter != 10*time.Second {
		t.Errorf("second refusal: got %+v, want refused with none left", r)
	}
}

// On a cluster, a bucket may refuse because tokens are about to be given back. The limiter
// remembers a refusal on a cluster for a short time only.
func TestClusterRemembersBriefly(t *testing.T) {
	_, client := startEmbedded(t)
	if l := New(client, patient); l.config.Remember != defaultRemember {
		t.Errorf("limiter on one server: got Remember %v, want %v", l.config.Remember, defaultRemember)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": client.Options().Addr}})
	defer func() { _ = ring.Close() }()
	if l := New(ring, patient); l.config.Remember != slotRemember {
		t.Errorf("limiter on a ring: got Remember %v, want %v", l.config.Remember, slotRemember)
	}
	if l := New(ring, Config{Timeout: time.Hour, Remember: -1}); l.config.Remember > 0 {
		t.Errorf("limiter on a ring, switched off: got Remember %v, want none", l.config.Remember)
	}
}
