package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// Two nodes deliver to one endpoint, while orders change. Each page is sent once, in order, and in
// the end the receiver knows the state of every order and sale.
func TestTwoNodesTakeTurns(t *testing.T) {
	servertest.EachSQL(t, func(t *testing.T, dsn string) {
		st, ids := openStore(t, dsn, 150)
		r := &receiver{t: t}
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		one, _ := node(t, st, nil, server.URL)
		two, _ := node(t, st, nil, server.URL)
		for i, id := range ids[:50] {
			check.Must(t, check.Err(st.Cancel(t.Context(), fmt.Sprint("buyer-", i), id)))
		}
		check.Eventually(t, "the receiver knows all rows", func() bool { return r.knows(st) })
		sent, last := map[string]bool{}, int64(0)
		for _, q := range r.received() {
			id, first := q.header.Get("Webhook-Id"), q.items[0].No
			if slow := one.States()[0].Failures+two.States()[0].Failures > 0; (sent[id] || first < last) && !slow {
				t.Errorf("page %s from change %d, after change %d: got it twice or too late", id, first, last)
			}
			sent[id], last = true, q.items[len(q.items)-1].No
		}
	})
}

// A receiver that fails half of the time, or whose answers are lost after it has accepted a page,
// knows everything in the end.
func TestFailingReceiverLosesNothing(t *testing.T) {
	inTime(t, 150, func(t *testing.T, st *store.Store, ids []string) {
		random := check.Rand(t)
		r := &receiver{t: t, answer: func(http.ResponseWriter, int) int {
			return []int{200, 200, 200, 500, 302, 429}[random.IntN(6)]
		}}
		run(t, st, serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if r.ServeHTTP(w, req); random.IntN(4) == 0 {
				panic(http.ErrAbortHandler) // the answer is lost
			}
		})), "http://shop/", without(st))
		for i, id := range ids[:70] {
			check.Must(t, check.Err(st.Cancel(t.Context(), fmt.Sprint("buyer-", i), id)))
			time.Sleep(time.Second)
			check.Must(t, check.Err(st.Number(t.Context())))
		}
		until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
	})
}

// Attempts are repeated after 5 s, 30 s, 2 min and then every 5 min, an eighth more or less, or when
// the endpoint has asked for it. All attempts have the same id and body, and a new timestamp. The
// state has the failures and the lag. After a 410 there are no attempts until an operator resumes
// the webhook.
func TestRetries(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
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
		r := &receiver{t: t, answer: func(w http.ResponseWriter, i int) int {
			after := answers[i].after
			if after == "in 10 minutes" {
				after = time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
			}
			w.Header().Set("Retry-After", after)
			return answers[i].status
		}}
		time.Sleep(time.Second) // the row of the feed is from the beginning of the bubble
		check.Must(t, check.Err(st.Number(t.Context())))
		d, _ := run(t, st, serve(t, r), "http://shop/", without(st))
		began := time.Now()
		for i, a := range answers {
			until(t, fmt.Sprint("the outcome of attempt ", i), func() bool {
				return len(r.received()) > i && d.States()[0].Failures == map[bool]int64{true: int64(i + 1)}[a.status != 200]
			})
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
			want := State{Name: hookName, Lag: max(state.Lag, time.Since(began).Seconds()-1), Failures: int64(i + 1), Stopped: a.status == 410, Error: state.Error}
			if a.status == 200 {
				want = State{Name: hookName}
			}
			if state != want || !strings.Contains(state.Error, fmt.Sprint(a.status)) && a.status != 200 {
				t.Errorf("state after answer %d of %d: got %+v, want %+v with the status", i, a.status, state, want)
			}
			if a.want == never {
				if time.Sleep(never); len(r.received()) != i+1 {
					t.Fatalf("%s after answer %d: got a further attempt, want none", never, a.status)
				}
				check.Must(t, st.ResumeWebhook(t.Context(), hookName, nil))
			}
		}
	})
}

// A bad endpoint neither holds an attempt for longer than its lease nor makes the node read much, and
// the changes are delivered when the endpoint is good.
func TestBadEndpoints(t *testing.T) {
	var sent atomic.Int64 // bytes of the bad answer
	send := func(w http.ResponseWriter, times int, piece string, pause time.Duration) {
		for range times {
			if _, err := w.Write([]byte(piece)); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			sent.Add(int64(len(piece)))
			time.Sleep(pause)
		}
	}
	for name, bad := range map[string]struct {
		header string
		status int
		answer func(w http.ResponseWriter)
		want   string // in the error
	}{
		"redirect":          {"Location: http://elsewhere/", 307, nil, "answered 307 Temporary Redirect"},
		"long header":       {"X: " + strings.Repeat("x", 1<<20), 200, nil, "header"},
		"hang":              {"", 0, func(http.ResponseWriter) { time.Sleep(time.Minute) }, "timeout"},
		"closed connection": {"", 0, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
		"drip":              {"", 500, func(w http.ResponseWriter) { send(w, 100, ".", time.Second) }, `answered 500 Internal Server Error: "....`},
		"10 MB":             {"", 500, func(w http.ResponseWriter) { send(w, 10_000, strings.Repeat("\xff", 1000), 0) }, "answered 500"},
		"gzip bomb":         {"Content-Encoding: gzip", 400, func(w http.ResponseWriter) { send(w, 10_000, "\x1f\x8b\x08"+strings.Repeat("x", 1000), 0) }, `"\x1f\x8b`},
		"invisible text":    {"", 418, func(w http.ResponseWriter) { send(w, 1, "\x1b[31m\xff<b>", 0) }, `answered 418 I'm a teapot: "\x1b[31m\xff<b>"`},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, 60, func(t *testing.T, st *store.Store, _ []string) {
				sent.Store(0)
				r := &receiver{t: t, answer: func(w http.ResponseWriter, i int) int {
					if i > 0 {
						return 200
					}
					if key, value, found := strings.Cut(bad.header, ": "); found {
						w.Header().Set(key, value)
					}
					if bad.status > 0 {
						w.WriteHeader(bad.status)
					}
					if bad.answer != nil {
						bad.answer(w)
					}
					return 0
				}}
				d, _ := node(t, st, serve(t, r), "http://shop/?token=hush")
				began := time.Now()
				until(t, "the attempt has failed", func() bool { return d.States()[0].Failures == 1 })
				if took, s := time.Since(began), d.States()[0]; took > lease || !strings.Contains(s.Error, bad.want) || strings.Contains(s.Error, "hush") || len(s.Error) > maxError {
					t.Errorf("attempt: got the error %q after %s, want %q within %s, without the URL", s.Error, took, bad.want, lease)
				}
				until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
				if n := sent.Load(); n > 64<<10 {
					t.Errorf("bad answer: the node has read %d bytes, want at most 64 kB", n)
				}
			})
		})
	}
}

// A node that dies while it holds the lease delays the next attempt until the lease ends.
func TestNodeDiesWithLease(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
		row, now, err := st.Webhook(t.Context(), hookName)
		check.Must(t, err)
		dead := row
		dead.LeasedUntil = now.Add(lease)
		check.Must(t, check.Err(st.SwapWebhook(t.Context(), row, dead)))
		r := &receiver{t: t}
		node(t, st, serve(t, r), "http://shop/")
		until(t, "the receiver knows all rows", func() bool { return r.knows(st) })
		if took := r.received()[0].at.Sub(now); took < lease || took > lease+idle {
			t.Errorf("delivery after the end of a node: got it after %s, want %s and little more", took, lease)
		}
	})
}

// A node that is stopped during an attempt counts no failure, and another node repeats the attempt at
// once. Times that are far in the future, from before the database's clock was set back, do not
// count.
func TestNodeStopsDuringAttempt(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
		r := &receiver{t: t, answer: func(_ http.ResponseWriter, i int) int {
			if i == 0 {
				time.Sleep(time.Minute)
			}
			return 200
		}}
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
		r := &receiver{t: t}
		node(t, st, serve(t, r), "http://shop/")
		until(t, "all sales are delivered", func() bool { return len(r.ledger()) == sales+1 })
		if n := len(r.received()); n > sales/4 {
			t.Errorf("deliveries of %d long sales: got %d requests, want several sales in each", sales, n)
		}
	})
}

func TestCheck(t *testing.T) {
	check.OK(t, Check("shop", "https://shop.example/hook?a=b", false))
	check.OK(t, Check("shop", "http://127.0.0.1:9/", true))
	for _, e := range [][2]string{
		{"", "https://a"}, {"a b", "https://a"}, {"shop", ""}, {"shop", "https://"}, {"shop", "/hook"}, {"shop", "https://u:hush@a"}, {"shop", "https://a/#b"},
		{"shop", "ftp://a"}, {"shop", "http://a"}, {"shop", "https://a\n"},
	} {
		if err := Check(e[0], e[1], false); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("webhook %q: got error %v, want one without the URL", e, err)
		}
	}
	secrets := []string{Secret([]byte(secret), "a"), Secret([]byte(secret), "b"), Secret([]byte(former), "a")}
	if slices.Sort(secrets); len(slices.Compact(secrets)) != 3 {
		t.Errorf("secrets of two names and of two services: got %q, want three different ones", secrets)
	}
}

// A position that the feed does not accept, as after a restored backup, is an error of the webhook, and
// its lag grows.
func TestUnreadableChanges(t *testing.T) {
	inTime(t, 1, func(t *testing.T, st *store.Store, _ []string) {
		d, _ := run(t, st, nil, "http://shop/", func(context.Context, string, int, time.Duration) ([]store.Change, string, error) {
			return nil, "", orders.ErrUnavailable
		})
		time.Sleep(time.Hour)
		if s := d.States()[0]; s.Lag < 3500 || !strings.Contains(s.Error, "cannot be read") {
			t.Errorf("state of a webhook without changes to read: got %+v, want an error and a lag of an hour", s)
		}
	})
}
