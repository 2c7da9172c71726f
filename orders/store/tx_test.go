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

// A transaction whose COMMIT is never answered ends with its context, at the latest with the
// connection's read timeout.
func TestSilentCommitEnds(t *testing.T) {
	t.Parallel()
	dsn := servertest.OpenSQL(t, servers.KindReal)
	check.Must(t, check.Err(openStore(t, dsn).PutSale(t.Context(), kit.Sale("S", 1, 1))))
	at, end := strings.Index(dsn, "tcp(")+len("tcp("), strings.Index(dsn, ")/")
	w, err := wire.Open(dsn[at:end])
	check.Must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	const short = 1 // lock wait in seconds, instead of lockWait
	store, err := Open(fmt.Sprint(dsn[:at], w.Addr(), dsn[end:], "?innodb_lock_wait_timeout=", short), Config{WaitTimeout: short * time.Second})
	check.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	silenced := w.Silence(2, func(sent []byte) bool { return bytes.Contains(sent, []byte("\x03COMMIT")) }) // \x03 begins a query, so READ COMMITTED does not match

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		check.Eventually(t, "a COMMIT is not answered", func() bool { return silenced() > 0 })
		cancel()
	}()
	check.Is(t, check.Err(store.TakeOver(ctx, "S")), context.Canceled)
	// The server ends the silent session within WaitTimeout, which unlocks the row.
	if _, err = store.TakeOver(t.Context(), "S"); err == nil {
		t.Error("takeover whose COMMIT is not answered: got no error, want one")
	}
	if n := silenced(); n != 2 {
		t.Errorf("COMMITs without an answer: got %d, want 2", n)
	}
}

// The read timeout of a connection is longer than its wait for a row lock.
func TestReadTimeoutExceedsTheLockWait(t *testing.T) {
	for wait, want := range map[string]time.Duration{"": 8 * time.Second, "12": 15 * time.Second, "1&readTimeout=30s": 30 * time.Second} {
		c, err := session("u:p@tcp(h)/d?innodb_lock_wait_timeout="+wait, Config{})
		check.Must(t, err)
		if c.ReadTimeout != want {
			t.Errorf("innodb_lock_wait_timeout=%s: got read timeout %v, want %v", wait, c.ReadTimeout, want)
		}
	}
	if _, err := session("u:p@tcp(h)/d?innodb_lock_wait_timeout=5s", Config{}); err == nil {
		t.Error("innodb_lock_wait_timeout=5s: got no error, want one, because MySQL takes whole seconds only")
	}
}
