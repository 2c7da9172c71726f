package store

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders/internal/kit"
)

// A COMMIT that is never answered ends with its context, and without one with
// the connection's read timeout: nobody waits for ever.
func TestSilentCommitEnds(t *testing.T) {
	t.Parallel()
	dsn := servertest.OpenSQL(t, servers.KindReal)
	kit.Must(t, kit.Err(openStore(t, dsn).PutSale(t.Context(), kit.Sale("S", 1, 1))))
	at, end := strings.Index(dsn, "tcp(")+len("tcp("), strings.Index(dsn, ")/")
	w, err := wire.Open(dsn[at:end])
	kit.Must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	store, err := Open(dsn[:at]+w.Addr()+dsn[end:], StoreConfig{})
	kit.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	silenced := w.Silence(2, func(sent []byte) bool { return bytes.Contains(sent, []byte("\x03COMMIT")) }) // the query, and not READ COMMITTED

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := store.TakeOver(ctx, "S"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > readTimeout/2 {
		t.Errorf("it ended after %v with %v", time.Since(began), err)
	}
	// A server that ends the silent session lets go of the row, within WaitTimeout.
	began = time.Now()
	_, err = store.TakeOver(t.Context(), "S")
	if err == nil || time.Since(began) > 4*readTimeout {
		t.Errorf("without an end of its own it ended after %v with %v", time.Since(began), err)
	}
	if silenced() != 2 {
		t.Errorf("%d commits went silent", silenced())
	}
}
