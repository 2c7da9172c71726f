package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// Two nodes deliver to one endpoint, while orders change. Each page is sent once, and after all
// pages the receiver knows the state of every order and sale. Each request has a signature for the
// former secret, too.
func TestTwoNodesTakeTurns(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		st, ids := openStore(t, dsn, 150)
		r := newReceiver(t, nil)
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		one, _ := node(t, st, nil, server.URL)
		two, _ := node(t, st, nil, server.URL)
		for i, id := range ids[:50] {
			_, err := st.Cancel(t.Context(), fmt.Sprint("buyer-", i), id)
			check.Must(t, err)
		}
		check.Eventually(t, "the receiver knows all rows", func() bool { return r.knows(st) })
		sent, last := map[string]bool{}, int64(0)
		old, err := standardwebhooks.NewWebhook(Secret([]byte(former), hookName))
		check.Must(t, err)
		for _, q := range r.received() {
			id := q.header.Get("Webhook-Id")
			if first := q.items[0].No; (sent[id] || first < last) && one.States()[0].Failed+two.States()[0].Failed == 0 {
				t.Errorf("page %s from change %d, after change %d: got it twice or too late", id, first, last)
			}
			sent[id], last = true, q.items[len(q.items)-1].No
			if err := old.Verify(q.body, q.header); err != nil {
				t.Errorf("signature for the former secret: got error %v, want none", err)
			}
		}
	})
}

// A receiver that fails half of the time, before or after it has read a page, and whose answers are
// lost, knows everything in the end. The webhook-id of a page stays the same, and the time changes.
func TestFailingReceiverLosesNothing(t *testing.T) {
	inTime(t, 150, func(t *testing.T, st *store.Store, ids []string) {
		random := check.Rand(t)
		r := newReceiver(t, func(w http.ResponseWriter, _ int) {
			if random.IntN(4) == 0 {
				w.WriteHeader([]int{500, 302, 429}[random.IntN(3)])
			}
		})
		network := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if r.ServeHTTP(w, req); random.IntN(3) == 0 {
				panic(http.ErrAbortHandler) // the answer is lost
			}
		}))
		node(t, st, network, "http://shop/")
		for i, id := range ids[:70] {
			_, err := st.Cancel(t.Context(), fmt.Sprint("buyer-", i), id)
			check.Must(t, err)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
	})
}

// Attempts are repeated after 5 s, 30 s, 2 min and then every 5 min, an eighth more or less, or when
// the endpoint has asked for it. All attempts have the same id and body, and a new timestamp. The
// state has the failures and the lag. After a 410 there are no attempts until an operator resumes
// the webhook.
func TestRetries(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, ids []string) {
		const never = 90 * time.Minute
		answers := []struct {
			status int
			after  string
			want   time.Duration // until the next attempt
			exact  bool
		}{
			{500, "", 5 * time.Second, false}, {404, "", 30 * time.Second, false}, {307, "", 2 * time.Minute, false}, {503, "", 5 * time.Minute, false},
			{503, "", 5 * time.Minute, false}, {503, "60", time.Minute, true}, {429, "0", 5 * time.Minute, false}, {429, "1", 5 * time.Second, true},
			{503, "-5", 5 * time.Minute, false}, {503, "soon", 5 * time.Minute, false}, {503, "7200", maxPause, true},
			{503, "in 10 minutes", 10 * time.Minute, true}, {410, "", never, false}, {200, "", 0, false},
		}
		r := newReceiver(t, func(w http.ResponseWriter, i int) {
			after := answers[i].after
			if after == "in 10 minutes" {
				after = time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
			}
			w.Header().Set("Retry-After", after)
			w.WriteHeader(answers[i].status)
		})
		time.Sleep(time.Second) // the feed was numbered at the beginning of the bubble
		check.Must(t, check.Err(st.Number(t.Context())))
		d, _ := deliver(t, st, func(ctx context.Context, after string, limit int, wait time.Duration) ([]store.Change, string, error) {
			return st.Changes(ctx, after, limit)
		}, serve(t, r), "http://shop/")
		began := time.Now()
		for i, a := range answers {
			until(t, fmt.Sprint("attempt ", i), func() bool { return len(r.received()) > i })
			all, state := r.received(), d.States()[0]
			first, last := all[0], all[i]
			if last.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || string(last.body) != string(first.body) || last.header.Get("Webhook-Timestamp") != fmt.Sprint(last.at.Unix()) {
				t.Errorf("attempt %d: got %v, want the id and body of the first one, at %d", i, last.header, last.at.Unix())
			}
			if i > 0 {
				before, took := answers[i-1], last.at.Sub(all[i-1].at)
				early, late := before.want*7/8, before.want*9/8
				if before.exact {
					early, late = before.want-time.Second, before.want // a date has whole seconds
				}
				if took < early || took > late+time.Second {
					t.Errorf("attempt after answer %d with Retry-After %q: got it after %s, want %s to %s", before.status, before.after, took, early, late)
				}
			}
			want := state
			want.Failures, want.Failed, want.Stopped = int64(i+1), int64(i+1), a.status == 410
			if a.status == 200 {
				want.Lag, want.Failures, want.Failed, want.LastError = 0, 0, int64(i), ""
			} else if want.Lag = max(state.Lag, time.Since(began)-time.Second); !strings.Contains(state.LastError, fmt.Sprint("answered ", a.status)) {
				t.Errorf("error after answer %d: got %q, want the status", a.status, state.LastError)
			}
			if state != want {
				t.Errorf("state after answer %d of %d: got %+v, want %+v", i, a.status, state, want)
			}
			if a.want == never {
				if time.Sleep(never); len(r.received()) != i+1 {
					t.Fatalf("%s after answer %d: got a further attempt, want none", never, a.status)
				}
				check.Must(t, st.ResumeWebhook(t.Context(), hookName, nil))
			}
		}
		if !r.knows(st) {
			t.Errorf("changes after the last attempt: got %v, want all rows", r.ledger())
		}
	})
}

// A bad endpoint neither holds an attempt for longer than its lease nor makes the node read much, and
// the changes are delivered when the endpoint is good.
func TestBadEndpoints(t *testing.T) {
	for name, bad := range map[string]struct {
		answer func(w http.ResponseWriter) (sent int64)
		want   string // in the error
	}{
		"redirect": {func(w http.ResponseWriter) int64 {
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return 0
		}, "answered 307 Temporary Redirect"},
		"hang": {func(http.ResponseWriter) int64 { time.Sleep(time.Minute); return 0 }, "timeout"},
		"drip": {func(w http.ResponseWriter) (sent int64) {
			w.WriteHeader(http.StatusInternalServerError)
			for ; sent < 100; sent++ {
				_, _ = w.Write([]byte("."))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			return 0
		}, "answered 500 Internal Server Error: \"...."},
		"10 MB": {func(w http.ResponseWriter) int64 {
			w.WriteHeader(http.StatusInternalServerError)
			return zeros(w)
		}, "answered 500 Internal Server Error"},
		"gzip bomb": {func(w http.ResponseWriter) int64 {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("\x1f\x8b\x08 these bytes are not unpacked"))
			return zeros(w)
		}, "these bytes are not unpacked"},
		"long header": {func(w http.ResponseWriter) int64 {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(http.StatusOK)
			return 0
		}, "header"},
		"invisible text": {func(w http.ResponseWriter) int64 {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("\x1b[31m\u202e\xff<b>"))
			return 0
		}, "answered 418 I'm a teapot: \"\\x1b[31m\\u202e\\xff<b>"},
		"closed connection": {func(http.ResponseWriter) int64 { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, 60, func(t *testing.T, st *store.Store, _ []string) {
				done := make(chan int64, 1)
				r := newReceiver(t, func(w http.ResponseWriter, i int) {
					if i == 0 {
						var sent int64
						defer func() { done <- sent }()
						sent = bad.answer(w)
					}
				})
				d, _ := node(t, st, serve(t, r), "http://shop/")
				began := time.Now()
				until(t, "the attempt has failed", func() bool { return d.States()[0].Failures == 1 })
				if took, s := time.Since(began), d.States()[0]; took > lease || !strings.Contains(s.LastError, bad.want) || len(s.LastError) > maxError {
					t.Errorf("attempt: got the error %q after %s, want %q within %s", s.LastError, took, bad.want, lease)
				}
				until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
				if sent := check.Receive(t, "the end of the bad answer", done); sent > 64<<10 {
					t.Errorf("bad answer: the node has read %d bytes, want at most 64 kB", sent)
				}
			})
		})
	}
}

// A node that dies while it holds the lease delays the next attempt until the lease ends. If it was
// only paused, its attempt no longer counts.
func TestNodeDiesWithLease(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
		row, now, err := st.Webhook(t.Context(), hookName)
		check.Must(t, err)
		dead := row
		dead.LeasedUntil = now.Add(lease)
		if taken, err := st.SwapWebhook(t.Context(), row, dead); !taken || err != nil {
			t.Fatalf("lease of the node that dies: got %t, error %v, want it taken", taken, err)
		}
		r := newReceiver(t, nil)
		node(t, st, serve(t, r), "http://shop/")
		until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
		if took := r.received()[0].at.Sub(now); took < lease || took > lease+2*idle {
			t.Errorf("delivery after the end of a node: got it after %s, want %s and little more", took, lease)
		}
		late := dead
		late.Position, late.LeasedUntil = "", now
		if swapped, err := st.SwapWebhook(t.Context(), dead, late); swapped || err != nil {
			t.Errorf("outcome of a node that was paused: got %t, error %v, want it ignored", swapped, err)
		}
	})
}

// A node that is stopped during an attempt counts no failure, and another node repeats the attempt at
// once. Times that are far in the future, from before the database's clock was set back, do not
// count.
func TestNodeStopsDuringAttempt(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
		r := newReceiver(t, func(_ http.ResponseWriter, i int) {
			if i == 0 {
				time.Sleep(time.Hour)
			}
		})
		network := serve(t, r)
		_, stop := node(t, st, network, "http://shop/")
		until(t, "an attempt is in progress", func() bool { return len(r.received()) == 1 })
		stop()
		row, now, err := st.Webhook(t.Context(), hookName)
		if check.Must(t, err); row.Failures != 0 || row.LeasedUntil.After(now) || row.Position != "" {
			t.Errorf("row after the stop: got %+v, want no failure, no lease and no position", row)
		}
		ahead := row
		ahead.LeasedUntil, ahead.NextAt = now.Add(24*time.Hour), now.Add(24*time.Hour)
		check.Must(t, check.Err(st.SwapWebhook(t.Context(), row, ahead)))
		node(t, st, network, "http://shop/")
		until(t, "the next attempt", func() bool { return len(r.received()) == 2 })
		if took := r.received()[1].at.Sub(now); took > idle {
			t.Errorf("attempt of the other node: got it after %s, want it at once", took)
		}
	})
}

// Pages stay below 20 kB, also if the sales have long texts.
func TestLongChanges(t *testing.T) {
	inTime(t, 0, func(t *testing.T, st *store.Store, _ []string) {
		const sales = 50
		for i := range sales {
			sale := kit.Sale(fmt.Sprint("long-", i), 1, 1)
			sale.Description = strings.Repeat("<", 500) // six bytes each, in JSON
			kit.PutSale(t, st, sale)
		}
		r := newReceiver(t, nil)
		node(t, st, serve(t, r), "http://shop/")
		until(t, "all sales are delivered", func() bool { return len(r.ledger()) == sales+1 })
		if n := len(r.received()); n > sales/4 {
			t.Errorf("deliveries of %d long sales: got %d requests, want several sales in each", sales, n)
		}
	})
}

func TestParseEndpoint(t *testing.T) {
	const good = "https://shop.example/hook?a=b"
	if e, err := ParseEndpoint("shop="+good, false); err != nil || e != (Endpoint{"shop", good}) {
		t.Errorf("endpoint: got %+v, error %v, want %s", e, err, good)
	}
	check.OK(t, check.Err(ParseEndpoint("shop=http://127.0.0.1:9/", true)))
	for _, text := range []string{
		"shop", "=https://a", "a b=https://a", "shop=", "shop=https://", "shop=/hook", "shop=https://u:hush@a", "shop=https://a/#b", "shop=ftp://a", "shop=http://a", "shop=https://a\n",
	} {
		if e, err := ParseEndpoint(text, false); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("endpoint %q: got %+v, error %v, want one without the URL", text, e, err)
		}
	}
}

// Each name and each secret of the service has another secret.
func TestSecretsDiffer(t *testing.T) {
	secrets := []string{Secret([]byte(secret), "a"), Secret([]byte(secret), "b"), Secret([]byte(former), "a")}
	slices.Sort(secrets)
	if len(slices.Compact(secrets)) != 3 || !strings.HasPrefix(secrets[0], "whsec_") {
		t.Errorf("secrets: got %q, want three different ones that begin with whsec_", secrets)
	}
}
