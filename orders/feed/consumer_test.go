package feed_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// A consumer that was paused after it had read a page does not commit the old page when another one
// has consumed the page and later ones.
func TestPausedConsumer(t *testing.T) {
	t.Parallel()
	ctx := check.Context(t)
	shop, st, stop := openShop()
	defer stop()
	db := openWarehouse(ctx)
	defer func() { _ = db.Close() }()
	paid := func() (n int) {
		check.Must(t, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE status = 'paid'").Scan(&n))
		return n
	}
	// slow holds a page until another consumer knows that ann has paid.
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get(shop + r.URL.RequestURI())
		if check.OK(t, err); err != nil {
			return
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		check.OK(t, err)
		check.OK(t, check.Err(st.Pay(ctx, "ann", anns, "p-1")))
		for err == nil && paid() == 0 {
			err = consume(ctx, db, shop, "TOKEN")
		}
		check.OK(t, err)
		_, _ = w.Write(body)
	}))
	defer slow.Close()
	check.Eventually(t, "both orders have a number", func() bool {
		changes, _, err := st.Changes(ctx, "", 10)
		return err == nil && len(changes) == 3
	})
	check.OK(t, consume(ctx, db, slow.URL, "TOKEN"))
	if n := paid(); n != 1 {
		t.Errorf("paid orders after the old page: got %d, want 1", n)
	}
}
