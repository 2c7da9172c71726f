package ratelimit

import (
	"strconv"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Redis logs a bucket that takes long to be full again. A bucket that is full soon is
// written to memory only, whatever else the same call writes.
func TestBucketsThatAreFullSoonAreNotLogged(t *testing.T) {
	t.Parallel()
	rdb := servertest.Connect(t, servertest.OpenRedis(t, servers.KindReal).URL)
	logSize := func() int64 {
		t.Helper()
		info, err := rdb.Info(t.Context(), "persistence").Result()
		check.Must(t, err)
		_, after, _ := strings.Cut(info, "aof_current_size:")
		size, _, _ := strings.Cut(after, "\r\n")
		n, err := strconv.ParseInt(size, 10, 64)
		check.Must(t, err)
		return n
	}
	check.Must(t, rdb.ConfigSet(t.Context(), "appendfsync", "no").Err()) // otherwise the log also grows when a sync ends
	limiter := New(rdb, patient)
	take := func(n int, b ...Bucket) (grown int64) {
		t.Helper()
		before := logSize()
		if r, err := limiter.Allow(t.Context(), n, b...); err != nil || !r.Allowed {
			t.Fatalf("request of the limiter: got %+v, error %v, want allowed", r, err)
		}
		return logSize() - before
	}
	brief, long := forBuyer("b", parse(t, "10/s:20")), forSKU("l", parse(t, "1/m:100"))
	if grown := take(1, brief); grown != 0 {
		t.Errorf("bucket that is full in 100 ms: got %d bytes more in the log, want 0", grown)
	}
	alone := take(1, long)
	if alone == 0 {
		t.Error("bucket that is full in a minute: got no bytes more in the log, want some")
	}
	for range 10 { // the order of keys is random
		if grown := take(1, brief, long); grown < alone/2 || grown > alone+alone/2 { // the lengths of numbers vary
			t.Errorf("both buckets: got %d bytes more in the log, want about %d as for one", grown, alone)
		}
	}
	slow := forBuyer("s", parse(t, "1/s:20"))
	if few, many := take(3, slow), take(10, slow); few != 0 || many == 0 {
		t.Errorf("log: got %d bytes more at 3 s from full and %d at 13 s, want 0 and more", few, many)
	}
}
