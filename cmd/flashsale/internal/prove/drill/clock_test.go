package drill

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
)

// The clock of a Redis has the offset that is set, and none after a step back.
func TestClock(t *testing.T) {
	c, err := newClock(t.Context(), t.TempDir())
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	check.Must(t, err)
	t.Cleanup(func() { _ = c.file.Close() })
	r, err := servers.StartRedis(t.Context(), servers.RedisConfig{Env: c.env})
	if errors.Is(err, servers.ErrNotInstalled) {
		t.Skip(err)
	}
	check.Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	rdb := lab.RedisClient(r.Addr())
	t.Cleanup(func() { _ = rdb.Close() })
	for _, off := range []int{0, -1_000_000, 1_000_000, 0} {
		check.Must(t, c.set(off))
		now, err := rdb.Time(t.Context()).Result()
		if got := time.Until(now); err != nil || got.Round(time.Hour) != (time.Duration(off)*time.Second).Round(time.Hour) {
			t.Errorf("clock of the process: got offset %v, want %ds, error %v", got, off, err)
		}
	}
}
