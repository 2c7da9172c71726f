package loadtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is a small attack that still sells out, replays and cancels.
func quick(url string) Config {
	c := Defaults()
	c.Target, c.Token = url, fakeToken
	c.Stock, c.Buyers, c.Rate, c.Duration = 120, 2000, 1500, 400*time.Millisecond
	c.SecondOrders = 0.2
	c.patience = patience{
		rest: 60 * time.Millisecond, settle: 10 * time.Second, repair: 200 * time.Millisecond, known: 10 * time.Second,
		topUp: 10 * time.Second, probe: 500 * time.Millisecond, probes: 4,
	}
	return c
}

func mustRun(t *testing.T, c Config) *Report {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	rep, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func text(t *testing.T, rep *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := rep.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func names(v Verdict) string {
	var list []string
	for _, one := range v.Violations {
		list = append(list, one.Name)
	}
	return strings.Join(list, " ")
}

func TestRunPassesACorrectSale(t *testing.T) {
	for _, shape := range []string{Constant, Ramp, Burst} {
		t.Run(shape, func(t *testing.T) {
			_, url := newFake(t, fault{})
			c := quick(url)
			c.Shape = shape
			rep := mustRun(t, c)
			if rep.ExitCode() != ExitPass {
				t.Fatalf("exit %d\n%s", rep.ExitCode(), text(t, rep))
			}
			if rep.Attempts != c.requests() {
				t.Errorf("%d attempts, want %d", rep.Attempts, c.requests())
			}
			if got := rep.Pending + rep.Paid; got != c.Stock {
				t.Errorf("%d units sold, want %d", got, c.Stock)
			}
			if rep.Restore.N == 0 || rep.DurablePerS == 0 || rep.Latency.P99 == 0 {
				t.Errorf("figures missing:\n%s", text(t, rep))
			}
		})
	}
}

// The same, where units are taken on payment.
func TestRunPassesASaleOnPayment(t *testing.T) {
	for name, f := range map[string]fault{
		"sound":        {},
		"half answers": {hangUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, f)
			c := quick(url).ForPayment()
			c.Replays = 1e-9 // none in the attack: they may come too early there
			rep := mustRun(t, c)
			if rep.ExitCode() != ExitPass {
				t.Fatalf("exit %d\n%s", rep.ExitCode(), text(t, rep))
			}
			if rep.Paid != c.Stock || rep.Pending != 0 || rep.Rows[Pending] == 0 {
				t.Errorf("%d units paid and %d pending, %d orders left unpaid", rep.Paid, rep.Pending, rep.Rows[Pending])
			}
			if f.hangUp && rep.Payments["0"] == 0 || unknownPayments(rep) > 0 || len(rep.Notes) > 0 {
				t.Errorf("payments %v, %d unknown, notes %q", rep.Payments, unknownPayments(rep), rep.Notes)
			}
			if out := text(t, rep); !strings.Contains(out, "taken on payment") || !strings.Contains(out, "paid/s") || rep.DurablePerS == 0 {
				t.Errorf("figures missing:\n%s", out)
			}
		})
	}
}

func unknownPayments(rep *Report) (n int) {
	for _, calls := range newCase(rep.evidence).closings {
		var p payment
		if p.fold(calls); p.doubted && p.told.IsZero() && !p.refused {
			n++
		}
	}
	return n
}

// Payments that are cut short are asked for all the same.
func TestRunInterruptedOnPayment(t *testing.T) {
	s, url := newFake(t, fault{hangUp: true})
	c := quick(url).ForPayment()
	c.Duration = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.onPaid = func() {
		if s.payments > 20 {
			stop()
		}
	}
	rep, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if rep.ExitCode() != ExitUnjudged || rep.Payments["0"] == 0 || unknownPayments(rep) > 0 {
		t.Errorf("exit %d, payments %v, %d unknown\n%s", rep.ExitCode(), rep.Payments, unknownPayments(rep), text(t, rep))
	}
}

func TestRunCatchesOnPayment(t *testing.T) {
	for name, tc := range map[string]struct {
		fault
		want string
	}{
		"oversell":      {fault{oversell: 5}, Oversold},
		"gives untaken": {fault{givesUntaken: true}, Oversold},
		"decr leak":     {fault{decrLeak: true}, Drift},
		"shy":           {fault{shy: 5}, Undersold},
		"holds unpaid":  {fault{holdsUnpaid: true}, Undersold},
		"takes twice":   {fault{takesTwice: true}, Drift},
		"no limit":      {fault{noLimit: true}, OverLimit},
		"unpaid":        {fault{unpaid: true}, Lost},
		"shown paid":    {fault{shownPaid: true}, Lost},
		"ghost":         {fault{ghostPaid: true}, Unannounced},
		"fickle":        {fault{fickle: true}, WrongAnswer},
		"false limit":   {fault{falseLimit: true}, WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			rep := mustRun(t, quick(url).ForPayment())
			if rep.ExitCode() != ExitViolation || !strings.Contains(names(rep.Verdict), tc.want) {
				t.Fatalf("exit %d, violations %q, want %q\n%s", rep.ExitCode(), names(rep.Verdict), tc.want, text(t, rep))
			}
		})
	}
}

// What clients have to live with is no violation: they ask again until they
// know. Each case says which answer shows that it happened.
func TestRunLivesWith(t *testing.T) {
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
		"all of it":         {fault{hangUp: true, async: true, forget: true, unavailable: true, limited: true}, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			if tc.silent {
				c.Timeout = time.Second
			}
			rep := mustRun(t, c)
			if rep.ExitCode() != ExitPass || rep.Answers[tc.answer] == 0 {
				t.Fatalf("exit %d, %d answers %s\n%s", rep.ExitCode(), rep.Answers[tc.answer], tc.answer, text(t, rep))
			}
		})
	}
}

// A server that is gone broke no promise that anyone could see.
func TestRunCannotJudgeTheDead(t *testing.T) {
	_, url := newFake(t, fault{dies: true})
	c := quick(url)
	c.patience.known, c.patience.settle = 300*time.Millisecond, 300*time.Millisecond
	rep := mustRun(t, c)
	got := text(t, rep)
	if rep.ExitCode() != ExitUnjudged || !strings.Contains(got, "could not judge undersold, lost, unannounced, drift: GET /v1/admin") {
		t.Fatalf("exit %d\n%s", rep.ExitCode(), got)
	}
}

func TestRunCatches(t *testing.T) {
	for name, tc := range map[string]struct {
		fault
		want string
	}{
		"oversell":        {fault{oversell: 5}, Oversold},
		"double restore":  {fault{doubleRestore: true}, Oversold},
		"decr leak":       {fault{decrLeak: true}, Undersold},
		"decr leak drift": {fault{decrLeak: true}, Drift},
		"shy":             {fault{shy: 5}, Undersold},
		"no restore":      {fault{noRestore: true}, Undersold},
		"no limit":        {fault{noLimit: true}, OverLimit},
		"lost":            {fault{lose: true}, Lost},
		"quantity":        {fault{one: true}, Lost},
		"ghost":           {fault{ghost: true}, Unannounced},
		"duplicate":       {fault{dupe: true}, Duplicates},
		"drift":           {fault{drift: 3}, Drift},
		"restless":        {fault{restless: true}, Unsettled},
		"plain text":      {fault{plainText: true}, WrongAnswer},
		"unflagged":       {fault{unflagged: true}, WrongAnswer},
		"unpaid":          {fault{unpaid: true}, WrongAnswer},
		"early expiry":    {fault{early: true}, WrongAnswer},
		"refused replay":  {fault{refuseReplay: true}, WrongAnswer},
		"500":             {fault{crash: true}, WrongAnswer},
		"false limit":     {fault{falseLimit: true}, WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			if tc.restless {
				c.patience.settle = 500 * time.Millisecond
			}
			rep := mustRun(t, c)
			if rep.ExitCode() != ExitViolation || !strings.Contains(names(rep.Verdict), tc.want) {
				t.Fatalf("exit %d, violations %q, want %q\n%s", rep.ExitCode(), names(rep.Verdict), tc.want, text(t, rep))
			}
		})
	}
}

// A server that finds drift and mends it has broken nothing, though the sale is
// at rest meanwhile.
func TestRunWaitsForDriftToBeMended(t *testing.T) {
	_, url := newFake(t, fault{drift: -3, mends: 40})
	c := quick(url)
	c.patience.repair = 20 * time.Second
	c.patience.settle = 25 * time.Second
	if rep := mustRun(t, c); rep.ExitCode() != ExitPass {
		t.Fatalf("exit %d\n%s", rep.ExitCode(), text(t, rep))
	}
}

func TestRunSaysWhatWasNotExercised(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no sell-out":     {func(c *Config) { c.Stock = 3000 }, "sell-out"},
		"few payments":    {func(c *Config) { *c = c.ForPayment(); c.Payments = 0.05 }, "sell-out: no payment"},
		"no replay":       {func(c *Config) { c.Replays = 0 }, "replay"},
		"no second order": {func(c *Config) { c.SecondOrders = 0 }, "second order"},
		"no cancellation": {func(c *Config) { c.Cancels, c.Payments = 0, 1 }, "cancellation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, fault{})
			c := quick(url)
			tc.change(&c)
			rep := mustRun(t, c)
			if rep.ExitCode() != ExitUnjudged || !strings.Contains(text(t, rep), "never exercised: "+tc.want) || len(rep.Gaps) > 0 {
				t.Fatalf("exit %d\n%s", rep.ExitCode(), text(t, rep))
			}
		})
	}
}

func TestRunShortPaymentWindow(t *testing.T) {
	_, url := newFake(t, fault{})
	c := quick(url)
	c.PaymentWindow, c.Cancels, c.Duration = time.Second, 0.2, 1300*time.Millisecond
	rep := mustRun(t, c)
	if rep.ExitCode() != ExitPass {
		t.Fatalf("exit %d\n%s", rep.ExitCode(), text(t, rep))
	}
	if rep.Expired == 0 {
		t.Errorf("nothing expired:\n%s", text(t, rep))
	}
}

func TestRunInterrupted(t *testing.T) {
	s, url := newFake(t, fault{})
	c := quick(url)
	c.Duration = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // once buyers are at it
		for {
			s.mu.Lock()
			n := s.posts
			s.mu.Unlock()
			if n > 200 || wait(ctx, time.Millisecond) != nil {
				stop()
				return
			}
		}
	}()
	began := time.Now()
	rep, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	got := text(t, rep)
	if rep.ExitCode() != ExitUnjudged || !strings.Contains(got, "interrupted") || rep.Attempts == 0 {
		t.Fatalf("exit %d\n%s", rep.ExitCode(), got)
	}
}

func TestRunRefusesAUsedSKU(t *testing.T) {
	_, url := newFake(t, fault{})
	c := quick(url)
	c.SKU = "twice"
	mustRun(t, c)
	if _, err := Run(t.Context(), c); !errors.Is(err, ErrSKUInUse) {
		t.Fatalf("got %v, want %v", err, ErrSKUInUse)
	}
}

func TestRunSaysWhyItCannotStart(t *testing.T) {
	_, url := newFake(t, fault{})
	c := quick(url)
	c.Token = func(s string, _ bool) (string, error) { return fakeToken(s, false) }
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "403 forbidden") {
		t.Fatalf("got %v", err)
	}
	_, err := Run(t.Context(), Config{Stock: -1, Replays: 2})
	for _, field := range []string{"Target", "Token", "Name", "Stock", "PerBuyerLimit", "Currency", "Rate", "Duration", "Shape", "Replays", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
