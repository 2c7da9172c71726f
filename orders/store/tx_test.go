package store

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders/internal/kit"
)

// A COMMIT that is never answered ends with its context, and without one with
// the connection's read timeout: nobody waits for ever.
func TestSilentCommitEnds(t *testing.T) {
	t.Parallel()
	dsn := servertest.OpenSQL(t, servers.KindReal)
	check.Must(t, check.Err(openStore(t, dsn).PutSale(t.Context(), kit.Sale("S", 1, 1))))
	at, end := strings.Index(dsn, "tcp(")+len("tcp("), strings.Index(dsn, ")/")
	w, err := wire.Open(dsn[at:end])
	check.Must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	const short = 1 // s, instead of lockWait
	store, err := Open(fmt.Sprint(dsn[:at], w.Addr(), dsn[end:], "?innodb_lock_wait_timeout=", short), Config{WaitTimeout: short * time.Second})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	silenced := w.Silence(2, func(sent []byte) bool { return bytes.Contains(sent, []byte("\x03COMMIT")) }) // the query, and not READ COMMITTED

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		check.Eventually(t, "a commit is silent", func() bool { return silenced() > 0 })
		cancel()
	}()
	check.Is(t, check.Err(store.TakeOver(ctx, "S")), context.Canceled)
	// A server that ends the silent session lets go of the row, within WaitTimeout.
	if _, err = store.TakeOver(t.Context(), "S"); err == nil {
		t.Error("a commit that was never answered has ended without an error")
	}
	if silenced() != 2 {
		t.Errorf("%d commits went silent", silenced())
	}
}

// Whoever lets statements wait longer for a row lock has connections that are
// silent for longer.
func TestSilenceOutlastsALockWait(t *testing.T) {
	for wait, want := range map[string]time.Duration{"": 8 * time.Second, "12": 15 * time.Second, "1&readTimeout=30s": 30 * time.Second} {
		c, err := session("u:p@tcp(h)/d?innodb_lock_wait_timeout="+wait, Config{})
		check.Must(t, err)
		if c.ReadTimeout != want {
			t.Errorf("innodb_lock_wait_timeout=%s: %v, want %v", wait, c.ReadTimeout, want)
		}
	}
	if _, err := session("u:p@tcp(h)/d?innodb_lock_wait_timeout=5s", Config{}); err == nil {
		t.Error("5s are no whole seconds to MySQL")
	}
}
