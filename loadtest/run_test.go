package loadtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // tests mostly wait, so run more than there are cores; -parallel overrides this
	debug.SetGCPercent(400)            // tests have small heaps
	goleak.VerifyTestMain(m)
}

// long is a time limit that a slow server does not reach.
const long = 5 * time.Minute

// quick returns a Config for a closed loop of 240 orders. On a machine of any speed, the
// run sells out, and it contains replays and cancellations.
func quick(url string) Config {
	c := Defaults()
	c.Target, c.Token = url, fakeToken
	c.Stock, c.InFlight, c.Rate, c.Duration, c.Timeout = 50, 8, 24, 10*time.Second, long
	c.SecondOrders, c.Replays = 0.2, 0.2
	c.patience = patience{rest: 20 * time.Millisecond, settle: long, known: long, topUp: long, probe: long, overdue: long, feed: long, probes: 4}
	c.Repair = 50 * time.Millisecond
	return c
}

// mustRun runs c and ends the test unless the verdict has this exit code.
func mustRun(t *testing.T, c Config, exitCode int) *report.Report {
	t.Helper()
	rep, err := Run(check.Context(t), c)
	check.Must(t, err)
	if rep.ExitCode() != exitCode {
		t.Fatalf("exit code: got %d, want %d\n%s", rep.ExitCode(), exitCode, text(t, rep))
	}
	return rep
}

// contains reports an error for each word that text lacks.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("text: got no %q in\n%s", word, text)
		}
	}
}

func text(t *testing.T, rep *report.Report) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, rep.WriteText(&b))
	return b.String()
}

func names(v judge.Verdict) string {
	var list []string
	for _, one := range v.Violations {
		list = append(list, one.Name)
	}
	return strings.Join(list, " ")
}

// A correct sale passes, in a closed loop and at a rate.
func TestRunPassesACorrectSale(t *testing.T) {
	t.Parallel()
	for name, inFlight := range map[string]int{"one at a time": 1, "eight at a time": 8, "at a rate": 0, "at a rate and eight at a time": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := newFake(t, fault{})
			c := quick(url)
			if c.InFlight = inFlight; inFlight == 0 {
				c.Rate, c.Duration, c.Shape = 1200, 200*time.Millisecond, Ramp
			}
			if c.Paced = strings.HasPrefix(name, "at a rate and"); c.Paced {
				c.Rate, c.Duration = 600, 400*time.Millisecond
			}
			began := time.Now()
			rep := mustRun(t, c, judge.ExitPass)
			if due := pace(t.Context(), c).due(uint64(c.requests() - 1)); c.Paced && time.Since(began) < due {
				t.Errorf("paced attack: ended before its last order was due, after %v", due)
			}
			if rep.Attempts != c.requests() {
				t.Errorf("attempts: got %d, want %d", rep.Attempts, c.requests())
			}
			if got := rep.Pending + rep.Paid; got != c.Stock {
				t.Errorf("units sold: got %d, want %d", got, c.Stock)
			}
			if (inFlight == 0 || c.Paced) && (rep.SendDelay.N != rep.Attempts || rep.SendDelay.Max == 0) {
				t.Errorf("lateness: got %+v, want one entry for each of %d attempts", rep.SendDelay, rep.Attempts)
			}
			if inFlight > 0 && s.highest > inFlight {
				t.Errorf("calls at once: got %d, want at most %d", s.highest, inFlight)
			}
			if !s.ended || len(rep.Notes) > 0 {
				t.Errorf("after the verdict: got the sale closed %v with notes %q, want it closed without notes", s.ended, rep.Notes)
			}
			if rep.ReleaseTime.N == 0 || rep.DurablePerS == 0 || rep.Latency.P99 == 0 {
				t.Errorf("report: got no figures for releases, rates or latencies, want all:\n%s", text(t, rep))
			}
		})
	}
}

// A correct sale that takes units on payment passes.
func TestRunPassesASaleOnPayment(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"every answer arrives": {},
		"half answers":         {hangUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, f)
			c := quick(url).ForPayment()
			c.Replays = 1e-9 // no replays in the attack, because they may come too early
			rep := mustRun(t, c, judge.ExitPass)
			if rep.Paid != c.Stock || rep.Pending != 0 || rep.Rows[judge.Pending] == 0 {
				t.Errorf("report: got %d units paid, %d pending and %d unpaid orders, want %d paid, 0 pending and some unpaid",
					rep.Paid, rep.Pending, rep.Rows[judge.Pending], c.Stock)
			}
			if f.hangUp && rep.Payments["0"] == 0 || unknownPayments(rep) > 0 || len(rep.Notes) > 0 {
				t.Errorf("payments in the report: got %v, %d unknown, notes %q, want none unknown and no notes", rep.Payments, unknownPayments(rep), rep.Notes)
			}
			if out := text(t, rep); !strings.Contains(out, "taken on payment") || !strings.Contains(out, "paid/s") || rep.DurablePerS == 0 {
				t.Errorf("report of a sale on payment: got no rate of payments or durable orders, want both:\n%s", out)
			}
		})
	}
}

func unknownPayments(rep *report.Report) (n int) {
	byOrder := map[string][]judge.Closing{}
	for _, cl := range rep.Evidence.Closings {
		byOrder[cl.OrderID] = append(byOrder[cl.OrderID], cl)
	}
	for _, calls := range byOrder {
		if p := judge.PaymentOf(calls); p.Inconclusive && p.ConfirmedAt.IsZero() && !p.Refused {
			n++
		}
	}
	return n
}

// Failed calls are no violations, because the clients retry. Each case names an answer
// that must occur.
func TestRunToleratesFailedCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		answer string
	}{
		"half answers":      {fault{hangUp: true}, "0"},
		"no answers":        {fault{silent: true}, "0"},
		"202":               {fault{async: true}, "202"},
		"202 and then lost": {fault{async: true, forget: true}, "202"},
		"503":               {fault{unavailable: true}, "503"},
		"429":               {fault{limited: true}, "429"},
		"all failures":      {fault{hangUp: true, async: true, forget: true, unavailable: true, limited: true}, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			if tc.silent {
				c.Timeout = time.Second
			}
			if rep := mustRun(t, c, judge.ExitPass); rep.Answers[tc.answer] == 0 {
				t.Fatalf("answers in the report: got none with %s, want some:\n%s", tc.answer, text(t, rep))
			}
		})
	}
}

// If the server stops answering, the verdict is NOT JUDGED and not FAIL, even if no
// audit ends within the time limit for settling.
func TestRunDoesNotJudgeADeadServer(t *testing.T) {
	t.Parallel()
	for _, settle := range []time.Duration{time.Nanosecond, 30 * time.Millisecond} {
		_, url := newFake(t, fault{stops: true})
		c := quick(url)
		c.Duration, c.patience.known, c.patience.settle = 4*time.Second, 10*time.Millisecond, settle
		got := text(t, mustRun(t, c, judge.ExitUnjudged))
		contains(t, got, "not judged: oversold, undersold, lost, unannounced, duplicates, over_limit, drift, unsettled: Get \"http", "to have it judged, find out why",
			"orders   not read", "units    not read", "oversold           -  ?", "unsettled          -  ?", "is still open")
		if strings.Contains(got, "durable/s") {
			t.Errorf("report on a dead server: got a rate of durable orders, want none:\n%s", got)
		}
	}
}

// A run whose server is gone stops by itself, long before the limits of its steps.
func TestRunStopsIfAllConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	s, handler := fakeHandler(fault{})
	server := httptest.NewServer(handler)
	s.onCall = func() {
		if s.posts == 60 {
			_ = server.Listener.Close()
			go server.CloseClientConnections()
		}
	}
	c := quick(server.URL)
	c.Duration, c.patience.refused = time.Hour, 50*time.Millisecond
	rep, err := Run(check.Context(t), c)
	check.Must(t, err)
	contains(t, text(t, rep), "VERDICT: NOT JUDGED", "drift, unsettled: every connection to the server was refused for 50ms", "interrupted")
	close(s.stop)
}

// Refused connections end a run after 15 seconds without any other result. Calls that the run
// itself cancels are no result.
func TestRefusals(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		at14 error // the result after 14 seconds
		want bool  // the run has stopped after 15 seconds
	}{
		"refused": {refused, true}, "cancelled": {context.Canceled, true}, "answered": {nil, false}, "timed out": {context.DeadlineExceeded, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			r := refusals{after: Config{}.withPatience().refused, stop: func(err error) { cause = err }}
			r.record(refused)
			time.Sleep(14 * time.Second)
			r.record(c.at14)
			time.Sleep(time.Second - time.Millisecond)
			if r.record(refused); cause != nil {
				t.Errorf("calls that are %s: got %v before 15 seconds, want no stop", name, cause)
			}
			time.Sleep(time.Millisecond)
			if r.record(refused); (cause != nil) != c.want {
				t.Errorf("calls that are %s: got %v after 15 seconds, want a stop: %v", name, cause, c.want)
			}
		})
	}
}

// A server that restarts while its rows are read is judged when it is back.
func TestRunReadsTheRowsAgain(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{restarts: 3})
	mustRun(t, quick(url), judge.ExitPass)
}

// A node may answer sold_out for a moment after units were released. Two rounds of
// fresh buyers receive at most 24 refusals.
func TestRunRetriesWhileTheGateHasUnits(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{staleRefusals: 26})
	c := quick(url)
	c.Stock, c.CancelShare, c.Search = 500, 0, time.Millisecond
	rep, err := Run(check.Context(t), c)
	check.Must(t, err)
	if rep.Undersold != 0 {
		t.Errorf("undersold: got %d, want 0\n%s", rep.Undersold, text(t, rep))
	}
}

// Drift that the server repairs in time is no violation, even if the sale is at rest
// while it lasts.
func TestRunWaitsForDriftToBeRepaired(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{drift: -3, driftyAudits: 30})
	c := quick(url)
	c.Repair = long
	mustRun(t, c, judge.ExitPass)
}

func TestRunReportsUnexercisedChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no sell-out":     {func(c *Config) { c.Stock = 500 }, "sell-out, oversold: no order"},
		"few payments":    {func(c *Config) { *c = c.ForPayment(); c.Payments = 0.05 }, "sell-out, oversold: no payment"},
		"no replay":       {func(c *Config) { c.Replays = 0 }, "replay, duplicates"},
		"no second order": {func(c *Config) { c.SecondOrders = 0 }, "second order, over_limit"},
		"no cancellation": {func(c *Config) { c.CancelShare, c.Payments = 0, 1 }, "cancellation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, fault{})
			c := quick(url)
			tc.change(&c)
			rep := mustRun(t, c, judge.ExitUnjudged)
			contains(t, text(t, rep), "not judged: "+tc.want, "to have it judged, ")
			if len(rep.Gaps) > 0 {
				t.Errorf("verdict with unexercised checks: got gaps %v, want none", rep.Gaps)
			}
		})
	}
}

func TestRunShortPaymentWindow(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{})
	c := quick(url)
	c.PaymentWindow = time.Second
	rep := mustRun(t, c, judge.ExitPass)
	if rep.Expired == 0 {
		t.Errorf("report: got no expired orders, want some:\n%s", text(t, rep))
	}
}

// An interrupted run judges the orders sent so far. It retries payments that the
// interrupt has cut off.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	for name, onPayment := range map[string]bool{"orders": false, "payments": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := newFake(t, fault{hangUp: onPayment})
			c := quick(url)
			if onPayment {
				c = c.ForPayment()
			}
			c.Buyers, c.Duration = 500, time.Hour
			ctx, stop := context.WithCancel(check.Context(t))
			defer stop()
			s.onCall = func() {
				if s.payments > 20 || !onPayment && s.posts > 100 {
					stop()
				}
			}
			rep, err := Run(ctx, c)
			check.Must(t, err)
			got := text(t, rep)
			if rep.ExitCode() != judge.ExitUnjudged || rep.Attempts == 0 || rep.Attempts >= c.requests() || !strings.Contains(got, "interrupted") {
				t.Errorf("interrupted run: got exit code %d after %d of %d attempts, want an unjudged run after some of them:\n%s",
					rep.ExitCode(), rep.Attempts, c.requests(), got)
			}
			if onPayment && rep.Payments["0"] == 0 || unknownPayments(rep) > 0 {
				t.Errorf("payments of an interrupted run: got %v, %d unknown, want none unknown\n%s", rep.Payments, unknownPayments(rep), got)
			}
		})
	}
}

func TestRunRefusesAUsedSKU(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{})
	c := quick(url)
	c.SKU = "twice"
	mustRun(t, c, judge.ExitPass)
	if _, err := Run(t.Context(), c); !errors.Is(err, client.ErrSKUInUse) {
		t.Fatalf("run with a SKU that has orders: got error %v, want %v", err, client.ErrSKUInUse)
	}
}

func TestRunReportsWhyItCannotStart(t *testing.T) {
	_, url := newFake(t, fault{})
	c := quick(url)
	c.Token = func(s string, _ bool) (string, error) { return fakeToken(s, false) }
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "403 forbidden") {
		t.Fatalf("run without an operator's token: got error %v, want 403 forbidden", err)
	}
	_, err := Run(t.Context(), Config{Stock: -1, Replays: 2})
	contains(t, fmt.Sprint(err), "Target:", "Token:", "Name:", "Stock:", "UnitsPerBuyer:", "Currency:", "Rate:", "Duration:", "Shape:", "Replays:", "Timeout:")
}

// A server that limits all buyers as one address is not attacked, because it would
// refuse most orders. A slow attack may pass.
func TestRunStopsIfBuyersShareOneAddress(t *testing.T) {
	t.Parallel()
	s, url := newFake(t, fault{oneAddress: true})
	_, err := Run(t.Context(), quick(url))
	contains(t, fmt.Sprint(err), "--trusted-proxies", "--limit-ip off")
	if s.sku != "" || s.posts > 0 {
		t.Errorf("run with one address for all buyers: got sale %q opened and %d orders sent, want neither", s.sku, s.posts)
	}
	_, url = newFake(t, fault{oneAddress: true})
	c := quick(url)
	c.Rate, c.Stock = 3, 5
	_, err = Run(check.Context(t), c)
	check.Must(t, err)
}

// The tokens of a load test do not expire during the run.
func TestTokenLife(t *testing.T) {
	c := Defaults()
	if got := c.TokenLife(); got < c.Duration+10*time.Minute || got > time.Hour {
		t.Errorf("tokens of the default attack: got a life of %v, want 10 minutes to an hour", got)
	}
	long, expiring := c, c
	long.Phases = []Phase{{Constant, 1, 0, 30 * time.Hour}, {Constant, 1, 0, 30 * time.Hour}}
	expiring.Sales, expiring.PaymentWindow, expiring.Duration = make([]Sale, 3), time.Hour, time.Hour
	if got := long.TokenLife(); got < 60*time.Hour {
		t.Errorf("tokens of an attack of 60 hours: got a life of %v, want at least as much", got)
	}
	if got := expiring.TokenLife(); got < 4*time.Hour {
		t.Errorf("tokens of three sales that wait for expiry: got a life of %v, want the attack and three payment windows", got)
	}
}
