package store

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

// If several nodes lease a webhook at once, one of them succeeds. After another node has taken the
// lease, or an operator has resumed the webhook, the former owner of the lease changes nothing.
func TestWebhookLease(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		s := openStore(t, dsn)
		var created sync.WaitGroup
		for range 8 {
			created.Go(func() {
				_, _, err := s.Webhook(t.Context(), "shop")
				check.OK(t, err)
			})
		}
		created.Wait()
		row, now, err := s.Webhook(t.Context(), "shop")
		check.Must(t, err)
		if row.Name != "shop" || row.Position != "" || row.Failures != 0 || row.Stopped || row.NextAt.After(now) || row.LeasedUntil.After(now) {
			t.Errorf("new webhook: got %+v at %s, want it due", row, now)
		}
		lease := func(row Webhook, d time.Duration) Webhook { row.LeasedUntil = now.Add(d); return row }
		var taken atomic.Int64
		var leasing sync.WaitGroup
		for range 8 {
			leasing.Go(func() {
				swapped, err := s.SwapWebhook(t.Context(), row, lease(row, time.Minute))
				if check.OK(t, err); swapped {
					taken.Add(1)
				}
			})
		}
		leasing.Wait()
		if taken.Load() != 1 {
			t.Errorf("lease by 8 nodes at once: got it %d times, want once", taken.Load())
		}
		swap := func(what string, was, next Webhook, want bool) {
			t.Helper()
			if swapped, err := s.SwapWebhook(t.Context(), was, next); swapped != want || err != nil {
				t.Errorf("%s: got %t, error %v, want %t", what, swapped, err, want)
			}
		}
		first, second := lease(row, time.Minute), lease(row, time.Hour)
		swap("lease after the end of the first lease", first, second, true)
		swap("outcome under the first lease", first, row, false)
		failed := second
		failed.Failures, failed.Stopped, failed.LastError, failed.NextAt = 3, true, strings.Repeat("x", 300), now.Add(time.Hour)
		swap("outcome under the second lease", second, failed, true)
		if rows, err := s.Webhooks(t.Context()); err != nil || len(rows) != 1 || !sameWebhook(rows[0], failed) {
			t.Errorf("webhooks: got %+v, error %v, want %+v", rows, err, failed)
		}

		_, cursor, err := s.Changes(t.Context(), "", 1)
		check.Must(t, err)
		check.OK(t, s.ResumeWebhook(t.Context(), "shop", &cursor))
		swap("outcome of an attempt before the resumption", failed, row, false)
		resumed, now, err := s.Webhook(t.Context(), "shop")
		check.Must(t, err)
		if want := (Webhook{Name: "shop", Position: cursor, NextAt: resumed.NextAt, LeasedUntil: resumed.NextAt}); !sameWebhook(resumed, want) || resumed.NextAt.After(now) {
			t.Errorf("resumed webhook: got %+v, want %+v", resumed, want)
		}
		check.OK(t, s.ResumeWebhook(t.Context(), "shop", nil))
		if row, _, err := s.Webhook(t.Context(), "shop"); err != nil || row.Position != cursor {
			t.Errorf("webhook resumed where it is: got %+v, error %v, want the position %s", row, err, cursor)
		}
		check.Is(t, s.ResumeWebhook(t.Context(), "another", nil), orders.ErrNotFound)
		forged := "forged"
		if err := s.ResumeWebhook(t.Context(), "shop", &forged); err == nil || !strings.Contains(err.Error(), "after") {
			t.Errorf("resumption after a forged cursor: got error %v, want one that names after", err)
		}
	})
}

// sameWebhook compares rows, whose times may have different locations.
func sameWebhook(a, b Webhook) bool {
	same := a.NextAt.Equal(b.NextAt) && a.LeasedUntil.Equal(b.LeasedUntil)
	a.NextAt, a.LeasedUntil = b.NextAt, b.LeasedUntil
	return same && a == b
}
