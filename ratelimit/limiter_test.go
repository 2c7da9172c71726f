package ratelimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/limit"
)

func TestAllowTakesFromAllOrNone(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		buyer, sku := forBuyer("b1", parse(t, "1/h:5")), forSKU("s1", parse(t, "1/h:2"))
		for n := range 2 {
			if r := allow(t, l, 1, buyer, sku); !r.Allowed || r.Bucket != "sku" || r.Remaining != int64(1-n) {
				t.Fatalf("request %d: got %+v, want allowed by the SKU's bucket with %d left", n, r, 1-n)
			}
		}
		r := allow(t, l, 1, buyer, sku)
		if r.Allowed || r.Bucket != "sku" || r.Limit != sku.Limit || r.RetryAfter <= 59*time.Minute || r.RetryAfter > time.Hour {
			t.Fatalf("third request: got %+v, want refused by the SKU's bucket for an hour", r)
		}
		if n := left(t, client, buyer); n != 3 {
			t.Fatalf("bucket of the buyer: got %d tokens left, want 3", n)
		}
	})
}

// If several buckets refuse, the answer names the bucket that refuses for longest. After
// a shorter time the request would be refused again.
func TestAllowNamesTheLongestRefusal(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		short, long := forIP("192.0.2.1", parse(t, "1/m:1")), forBuyer("b1", parse(t, "1/h:1"))
		allow(t, l, 1, short, long)
		for _, order := range [][]Bucket{{short, long}, {long, short}} {
			if r := allow(t, l, 1, order...); r.Allowed || r.Bucket != "buyer" || r.RetryAfter < 59*time.Minute {
				t.Fatalf("refused request: got %+v, want the refusal of the buyer's bucket", r)
			}
		}
	})
}

func TestCostAboveBurstIsNeverAllowed(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		buyer, sku := forBuyer("b1", parse(t, "1/h:5")), forSKU("s1", parse(t, "1/h:3"))
		r := allow(t, l, 4, buyer, sku)
		if r.Allowed || !r.Never || r.Bucket != "sku" || r.RetryAfter != 0 || r.Remaining != 3 {
			t.Fatalf("cost above the burst: got %+v, want Never", r)
		}
		if n := left(t, client, buyer); n != 5 {
			t.Fatalf("bucket of the buyer: got %d tokens left, want 5", n)
		}
		if r := allow(t, l, 3, buyer, sku); !r.Allowed {
			t.Fatalf("cost of the whole burst: got %+v, want allowed", r)
		}
	})
}

func TestAllowSkipsBucketsThatAreOff(t *testing.T) {
	_, client := startEmbedded(t)
	_ = client.Close() // asking Redis would fail
	l := New(client, patient)
	if r := allow(t, l, 1, forBuyer("b1", limit.Off), Bucket{Limit: limit.Off}); !r.Allowed || r.Bucket != "" {
		t.Fatalf("request without limits: got %+v, want allowed by no bucket", r)
	}
	if r, err := l.Allow(t.Context(), 1, forBuyer("b1", limit.Limit{})); !errors.Is(err, ErrBadRequest) {
		t.Errorf("zero limit: got %+v, error %v, want ErrBadRequest", r, err)
	}
}

// A bucket never holds more than its burst, in whatever way tokens return. Refilled
// tokens are not returned a second time.
func TestTokensReturnAtMostOnce(t *testing.T) {
	server, client := startEmbedded(t)
	l, b := New(client, patient), forBuyer("b1", parse(t, "1/s:10"))
	wantLeft := func(what string, err error, want int64) {
		t.Helper()
		if n := left(t, client, b); err != nil || n != want {
			t.Errorf("bucket %s: got %d tokens left, error %v, want %d", what, n, err, want)
		}
	}
	r := allow(t, l, 6, b)
	server.SetTime(epoch.Add(4 * time.Second))
	wantLeft("given back late, 4 of 6 have come in", l.GiveBack(t.Context(), r, 6, b), 10)
	allow(t, l, 10, b)
	wantLeft("given back late, and taken since", l.GiveBack(t.Context(), r, 6, b), 2)
	wantLeft("granted", l.Grant(t.Context(), 3, b), 5)
	wantLeft("granted too much", l.Grant(t.Context(), 30, b), 10)
	if server.Exists(b.key(defaultPrefix)) {
		t.Error("full bucket: got a key, want none")
	}
	allow(t, l, 10, b)
	refused := allow(t, l, 1, b)
	wantLeft("a refusal took nothing", l.GiveBack(t.Context(), refused, 1, b), 0)
	if turn, err := l.Wait(t.Context(), 1, time.Hour, forBuyer("queue", b.Limit)); err != nil || !errors.Is(l.GiveBack(t.Context(), turn, 1, b), ErrBadRequest) {
		t.Errorf("give a turn of a queue back: got error %v, want ErrBadRequest", err)
	}
	wantLeft("reset", l.Reset(t.Context(), b), 10)
	if r := allow(t, l, 1, b); !r.Allowed {
		t.Errorf("request after a reset: got %+v, want allowed", r)
	}
	if r := allow(t, New(client, Config{Timeout: time.Hour, Prefix: "other"}), 10, b); !r.Allowed {
		t.Errorf("request with another prefix: got %+v, want allowed", r)
	}
	_ = client.Close()
	for what, err := range map[string]error{"grant": l.Grant(t.Context(), 1, b), "reset": l.Reset(t.Context(), b)} {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s without Redis: got error %v, want ErrUnavailable", what, err)
		}
	}
	wantBad := func(err error) {
		if !errors.Is(err, ErrBadRequest) {
			t.Errorf("wrong arguments: got error %v, want ErrBadRequest", err)
		}
	}
	wantBad(l.Grant(t.Context(), 0, b))
	wantBad(l.Reset(t.Context(), Bucket{}))
}

// Peek returns the number of tokens left, and changes nothing.
func TestPeek(t *testing.T) {
	server, client := startEmbedded(t)
	l, buyer, sku := New(client, patient), forBuyer("b1", parse(t, "1/s:3")), forSKU("s1", parse(t, "1/s:9"))
	for left := int64(3); left >= 0; left-- {
		for range 2 {
			r, err := l.Peek(t.Context(), buyer, sku)
			if err != nil || r.Bucket != "buyer" || r.Remaining != left || r.Allowed != (left > 0) || r.Reset != time.Duration(3-left)*time.Second {
				t.Errorf("peek with %d tokens left: got %+v, error %v, want the buyer's bucket with that state", left, r, err)
			}
			if retry := map[bool]time.Duration{false: time.Second}[r.Allowed]; r.RetryAfter != retry {
				t.Errorf("with %d tokens left: got RetryAfter %v, want %v", left, r.RetryAfter, retry)
			}
		}
		if left == 3 && len(server.Keys()) > 0 {
			t.Errorf("Peek: got the written keys %v, want none", server.Keys())
		}
		allow(t, l, 1, buyer, sku)
	}
}

func TestAllowRefusesBadRequests(t *testing.T) {
	_, client := startEmbedded(t)
	_ = client.Close() // asking Redis would fail with another error
	l := New(client, patient)
	five := parse(t, "5/s")
	for name, c := range map[string]struct {
		cost    int
		buckets []Bucket
	}{
		"cost 0":                 {0, []Bucket{forBuyer("b1", five)}},
		"negative cost":          {-1, []Bucket{forBuyer("b1", five)}},
		"no id":                  {1, []Bucket{forBuyer("", five)}},
		"an id that is too long": {1, []Bucket{forBuyer(strings.Repeat("b", maxID+1), five)}},
		"no name":                {1, []Bucket{{ID: "x", Limit: five}}},
		"a name with a quote":    {1, []Bucket{{Name: `a"b`, ID: "x", Limit: five}}},
		"the same bucket twice":  {1, []Bucket{forBuyer("b1", five), forBuyer("b1", parse(t, "6/s"))}},
		"too many buckets":       {1, make([]Bucket, maxBuckets+1)},
	} {
		if _, err := l.Allow(t.Context(), c.cost, c.buckets...); !errors.Is(err, ErrBadRequest) {
			t.Errorf("bad request %s: got error %v, want ErrBadRequest", name, err)
		}
	}
}

func TestBucketKeys(t *testing.T) {
	five := parse(t, "5/s")
	for want, b := range map[string]Bucket{
		"rate:{buyer:b-1}":   forBuyer("b-1", five),
		"rate:{sku:S}":       forSKU("S", five),
		"rate:{route:pay}":   forRoute("pay", five),
		"rate:{sku:S}:queue": {Name: "sku", ID: "S", Limit: five, queues: true},
	} {
		if got := b.key(defaultPrefix); got != want {
			t.Errorf("bucket %+v: got key %s, want %s", b, got, want)
		}
	}
}

// A key with an unreadable value counts as an empty bucket and is repaired. Other buckets
// in the same call are not affected.
func TestTakeRepairsUnreadableKeys(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		for name, spoil := range map[string]func(key string) error{
			"text":          func(k string) error { return client.Set(t.Context(), k, "garbage", 0).Err() },
			"a unit of 0":   func(k string) error { return client.Set(t.Context(), k, "1 0 0", 0).Err() },
			"another type":  func(k string) error { return client.HSet(t.Context(), k, "level", 3).Err() },
			"another clock": func(k string) error { return client.Set(t.Context(), k, "9000000000000000 999 1000000", 0).Err() },
			"a huge debt": func(k string) error {
				return client.Set(t.Context(), k, "9000000000000000 99999999999999999999 1", 0).Err()
			},
		} {
			b := forBuyer(strings.ReplaceAll(name, " ", "-"), parse(t, "1/h:5"))
			check.Must(t, spoil(b.key(defaultPrefix)))
			beside := forSKU(b.ID, b.Limit)
			got := l.take(t.Context(), []ask{{cost: 5, buckets: []Bucket{b}}, {cost: 5, buckets: []Bucket{beside}}})
			if got[0].taken || got[0].err != nil || !got[1].taken {
				t.Errorf("unreadable key %s: got %+v, want the first refused and the second allowed", name, got)
			}
			value, err := client.Get(t.Context(), b.key(defaultPrefix)).Result()
			if fields := strings.Fields(value); err != nil || len(fields) != 3 || fields[2] != "3600000000" {
				t.Errorf("unreadable key %s: got %q after the call, error %v, want a value in units of the limit", name, value, err)
			}
			if ttl := client.PTTL(t.Context(), b.key(defaultPrefix)).Val(); ttl <= 0 || ttl > 5*time.Hour+time.Second {
				t.Errorf("unreadable key %s: got expiry in %v, want at most 5 h", name, ttl)
			}
		}
	})
}

// Tokens that were taken stay taken when the limit changes.
func TestChangedLimitKeepsTakenTokens(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		allow(t, l, 4, forBuyer("b1", parse(t, "1/h:10")))
		for _, c := range []struct {
			text string
			left int64
		}{{"8/h:10", 6}, {"1/h:5", 1}, {"8/h:20", 16}, {"1/h:2", 0}} {
			if n := left(t, client, forBuyer("b1", parse(t, c.text))); n != c.left {
				t.Errorf("bucket with the limit %s: got %d tokens left, want %d", c.text, n, c.left)
			}
		}
	})
}

// Two nodes or routes may count one bucket with two limits. No update is lost, not even
// within one call.
func TestOneBucketWithTwoLimits(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		for id, smaller := range map[string]string{"b1": "8/h:5", "b2": "1/h:5"} {
			ten, five := forBuyer(id, parse(t, "1/h:10")), forBuyer(id, parse(t, smaller))
			var asks []ask
			for range 3 {
				asks = append(asks, ask{cost: 1, buckets: []Bucket{ten}}, ask{cost: 1, buckets: []Bucket{five}})
			}
			taken := 0
			for _, a := range l.take(t.Context(), asks) {
				if a.taken {
					taken++
				}
			}
			// The sixth request finds the smaller limit exhausted.
			if n := left(t, client, ten); taken != 5 || n != 5 {
				t.Errorf("limits 1/h:10 and %s: got %d requests allowed and %d tokens left, want 5 and 5", smaller, taken, n)
			}
		}
	})
}

// If tokens were taken at a time that is still in the future, the clock went back. The
// refill since then is unknown, and nothing is given back.
func TestGiveBackAfterClockWentBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, client redis.UniversalClient) {
		l := New(client, patient)
		b := forBuyer("b1", parse(t, "1/h:5"))
		allow(t, l, 2, b)
		now, err := client.Time(t.Context()).Result()
		check.Must(t, err)
		back := []ask{{cost: -2, buckets: []Bucket{b}, taken: now.Add(time.Hour).UnixMicro()}}
		check.Must(t, l.take(t.Context(), back)[0].err)
		if n := left(t, client, b); n != 3 {
			t.Fatalf("bucket after the clock went back: got %d tokens left, want 3", n)
		}
	})
}

func TestEndedContextTakesNothing(t *testing.T) {
	_, client := startEmbedded(t)
	b := forBuyer("b1", parse(t, "1/h:5"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, check.Err(New(client, patient).Allow(ctx, 1, b)), context.Canceled)
	if n := left(t, client, b); n != 5 {
		t.Fatalf("bucket after an ended context: got %d tokens left, want 5", n)
	}
}
