package ratelimit

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The master fails, and Sentinel promotes its replica. Tokens that were taken before the
// replica was detached stay taken. Tokens that were taken afterwards are granted once more,
// because the replica has no record of them.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel := servertest.OpenRedisSentinel(t)
	ctx := check.Context(t)
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{sentinel.Sentinel.Addr()}, MasterName: servers.SentinelMaster,
		ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	defer rdb.Close()
	limiter := New(rdb, Config{Timeout: 30 * time.Second, Remember: -1})
	three := parse(t, "1/h:3")
	kept, lost := forBuyer("kept", three), forBuyer("lost", three)
	take := func(b Bucket) (allowed int64) {
		t.Helper()
		for {
			r, err := limiter.Allow(ctx, 1, b)
			switch {
			case ctx.Err() != nil:
				t.Fatalf("request during the failover: got error %v until the deadline, want none", err)
			case err != nil: // the call met the failover
			case !r.Allowed:
				return allowed
			default:
				allowed++
			}
		}
	}
	if n := take(kept); n != 3 {
		t.Fatalf("requests on the kept bucket: got %d allowed, want 3", n)
	}
	check.Must(t, sentinel.WaitReplicated(ctx))
	check.Must(t, sentinel.DetachReplica(ctx))
	if n := take(lost); n != 3 {
		t.Fatalf("requests on the lost bucket: got %d allowed, want 3", n)
	}
	check.Must(t, sentinel.Failover(ctx))
	if n := take(kept); n != 0 {
		t.Errorf("requests on the kept bucket after the failover: got %d allowed, want 0", n)
	}
	if n := take(lost); n == 0 || n > 3 {
		t.Errorf("requests on the lost bucket after the failover: got %d allowed, want 1 to 3", n)
	}
}
