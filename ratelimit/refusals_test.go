package ratelimit

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// startRemembering is a limiter whose clock goes with the server's.
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

// An abuser hears his refusal ten thousand times, and Redis is asked for it
// once. The twin remembers nothing, and asks each time.
func TestAnAbuserCostsRedisNothing(t *testing.T) {
	for _, c := range []struct {
		remember time.Duration
		requests int
		calls    int
	}{{0, 10_000, 2}, {-1, 100, 100}} {
		l, _, client, _ := startRemembering(t, c.remember)
		g := newGate(client)
		close(g.open)
		buyer, sku := forBuyer("b1", parse(t, "1/h:1")), forSKU("s1", parse(t, "1/s:9"))
		for n := range c.requests {
			r := allow(t, l, 1, sku, buyer)
			if r.Allowed != (n == 0) || n > 0 && (r.Bucket != "buyer" || r.Remaining != 0 || r.RetryAfter != time.Hour || r.Reset != time.Hour) {
				t.Fatalf("request %d: %+v", n, r)
			}
			if r.Remembered != (c.remember == 0 && n > 1) {
				t.Fatalf("request %d: %+v", n, r)
			}
		}
		if calls, _, _ := g.seen(); calls != c.calls {
			t.Errorf("remembering %v: %d calls for %d requests, not %d", c.remember, calls, c.requests, c.calls)
		}
	}
}

// Who is due gets his token at that moment, and not a microsecond earlier. For
// longer than Config.Remember nothing is believed: by then somebody may have
// emptied the bucket.
func TestWhatIsRememberedIsForgottenInTime(t *testing.T) {
	l, _, client, pass := startRemembering(t, 0)
	second, hour := forBuyer("b1", parse(t, "1/s:1")), forBuyer("b2", parse(t, "1/h:1"))
	for _, b := range []Bucket{second, hour} {
		allow(t, l, 1, b)
		if r := allow(t, l, 1, b); r.Allowed || r.Remembered {
			t.Fatalf("the first refusal: %+v", r)
		}
	}
	pass(time.Second - time.Microsecond)
	if r := allow(t, l, 1, second); r.Allowed || !r.Remembered || r.RetryAfter != time.Microsecond {
		t.Errorf("a microsecond before: %+v", r)
	}
	pass(time.Microsecond)
	if r := allow(t, l, 1, second); !r.Allowed {
		t.Errorf("when due: %+v", r)
	}
	check.Must(t, client.Del(t.Context(), hour.key(defaultPrefix)).Err())
	if r := allow(t, l, 1, hour); r.Allowed || r.RetryAfter != time.Hour-time.Second {
		t.Errorf("emptied by somebody: %+v", r)
	}
	pass(defaultRemember - time.Second)
	if r := allow(t, l, 1, hour); !r.Allowed {
		t.Errorf("emptied by somebody, and later: %+v", r)
	}
}

// A refusal speaks for requests of as much or more, of that bucket under that
// limit, and for no other.
func TestWhatARefusalSaysNothingAbout(t *testing.T) {
	l, _, _, _ := startRemembering(t, 0)
	five := forBuyer("b1", parse(t, "1/h:5"))
	allow(t, l, 5, five)
	allow(t, l, 2, five) // refused
	if r := allow(t, l, 3, five); r.Allowed || !r.Remembered || r.RetryAfter != 3*time.Hour {
		t.Errorf("more: %+v", r)
	}
	if r := allow(t, l, 5, five, forSKU("s1", parse(t, "1/h:9"))); r.Allowed || !r.Remembered {
		t.Errorf("together with another: %+v", r)
	}
	if r := allow(t, l, 1, five); r.Remembered {
		t.Errorf("less: %+v", r)
	}
	for name, r := range map[string]Result{
		"another bucket":       allow(t, l, 3, forBuyer("b2", five.Limit)),
		"another limit":        allow(t, l, 3, forBuyer("b1", parse(t, "1/h:50"))),
		"another kind, one id": allow(t, l, 3, forSKU("b1", five.Limit)),
	} {
		if !r.Allowed {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What is left in a bucket that refuses, another node may take: the next refusal
// says so.
func TestARefusalOfABucketWithARest(t *testing.T) {
	l, _, client, _ := startRemembering(t, 0)
	ten := forBuyer("b1", parse(t, "1/s:10"))
	allow(t, l, 3, ten)
	if r := allow(t, l, 10, ten); r.Allowed || r.Remaining != 7 || r.RetryAfter != 3*time.Second {
		t.Fatalf("%+v", r)
	}
	allow(t, New(client, patient), 7, ten)
	if r := allow(t, l, 10, ten); r.Allowed || r.Remaining != 0 || r.RetryAfter != 10*time.Second {
		t.Errorf("%+v", r)
	}
}

// On a cluster a bucket may refuse because tokens are on their way back. That
// is not believed for long.
func TestSlotsRememberForAMomentOnly(t *testing.T) {
	_, client := startEmbedded(t)
	if l := New(client, patient); l.config.Remember != defaultRemember {
		t.Errorf("one server: %v", l.config.Remember)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": client.Options().Addr}})
	defer func() { _ = ring.Close() }()
	if l := New(ring, patient); l.config.Remember != slotRemember {
		t.Errorf("many: %v", l.config.Remember)
	}
	if l := New(ring, Config{Timeout: time.Hour, Remember: -1}); l.config.Remember > 0 {
		t.Errorf("many, and not wanted: %v", l.config.Remember)
	}
}
