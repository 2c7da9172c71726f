package loadtest

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// A shop that lacks a feature does not pass unless the feature is listed in GET /v1/about or in
// Config.Lacks. If it is, the other promises are still judged.
func TestLacks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		lacks   []judge.Feature
		unsaid  string // violations or gaps of a shop that does not say what it lacks
		payment bool   // the sale takes units on payment
	}{
		"keys":          {fault{dupe: true, drops: true, keysUnstored: true}, []judge.Feature{judge.Keys}, judge.Duplicates, false},
		"limit":         {fault{noLimit: true}, []judge.Feature{judge.Limit}, judge.OverLimit, false},
		"audit":         {fault{noAudit: true, shuffled: true}, []judge.Feature{judge.Auditing}, judge.Oversold, false},
		"cancel":        {fault{noCancel: true}, []judge.Feature{judge.Cancelling}, judge.WrongAnswer, false},
		"pay":           {fault{paidAtOnce: true, cancelsPaid: true}, []judge.Feature{judge.Paying, judge.CancelOrPay}, judge.WrongAnswer, false},
		"cancel-or-pay": {fault{cancelsPaid: true}, []judge.Feature{judge.CancelOrPay}, judge.Lost, true},
		"everything": {fault{dupe: true, noLimit: true, noAudit: true, noCancel: true, paidAtOnce: true, drops: true, keysUnstored: true, feed: missing},
			judge.Features(), judge.Oversold, false},
	} {
		for how, say := range map[string]func(*fault, *Config){
			"about": func(f *fault, _ *Config) { f.about = &judge.About{Name: "Toy", Version: "1.0", Lacks: tc.lacks} },
			"flag":  func(_ *fault, c *Config) { c.Lacks = tc.lacks },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				f, c := tc.fault, quick("")
				say(&f, &c)
				judgesTheRest(t, f, c, tc.payment, tc.lacks)
			})
		}
		t.Run(name+"/unsaid", func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := mixed(quick(url), tc.payment)
			c.patience.settle, c.patience.probe, c.patience.topUp = time.Millisecond, time.Millisecond, time.Millisecond
			rep, err := Run(check.Context(t), c)
			check.Must(t, err)
			if got := text(t, rep); rep.ExitCode() == judge.ExitPass || !strings.Contains(got, tc.unsaid) {
				t.Errorf("a shop that does not say what it lacks: got\n%s\nwant no pass, and %s", got, tc.unsaid)
			}
		})
	}
}

// mixed returns c for a shop that lacks features. If the sale takes units on payment, half of the
// orders are cancelled, and all other orders are paid.
func mixed(c Config, payment bool) Config {
	c.Search = time.Millisecond
	if payment {
		c = c.ForPayment()
		c.CancelShare, c.Payments = 0.5, 0.5
	}
	return c
}

// judgesTheRest reports an error unless the fake shop passes without the features that it lacks.
func judgesTheRest(t *testing.T, f fault, c Config, payment bool, lacks []judge.Feature) {
	s, url := newFake(t, f)
	c = mixed(c, payment)
	c.Target = url
	rep := mustRun(t, c, judge.ExitPass)
	contains(t, text(t, rep), " "+judge.JoinFeatures(lacks)+"\n", " none; run with --serial")
	if rep.Pending+rep.Paid != c.Stock || rep.Shop == nil {
		t.Errorf("the sale: got %d units of %d sold, and the shop %v, want all sold", rep.Pending+rep.Paid, c.Stock, rep.Shop)
	}
	for _, p := range rep.Checks() {
		if p.NA && (p.Name == judge.Oversold || p.Name == judge.Lost || p.Name == judge.Unannounced) {
			t.Errorf("%s: does not apply, want it judged for each shop", p.Name)
		}
	}
	if s.highest > c.InFlight {
		t.Errorf("calls at once: got %d, want at most %d", s.highest, c.InFlight)
	}
}

// A shop that lacks everything is still caught if it oversells, loses an order or stores a
// refused one.
func TestLacksEverythingAndFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		want string
	}{
		"oversold":    {fault{oversell: 5}, judge.Oversold},
		"lost":        {fault{lose: true}, judge.Lost},
		"unannounced": {fault{ghost: true}, judge.Unannounced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.fault
			f.dupe, f.noLimit, f.noAudit, f.noCancel, f.paidAtOnce, f.keysUnstored, f.feed = true, true, true, true, true, true, missing
			f.about = &judge.About{Name: "Toy", Lacks: judge.Features()}
			_, url := newFake(t, f)
			c := quick(url)
			c.Search = time.Millisecond
			contains(t, names(mustRun(t, c, judge.ExitViolation).Verdict), tc.want)
		})
	}
}

// If the available units are derived from the rows, a drift that repeats an oversell is not
// reported, and any other drift is.
func TestLacksCounter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		lacks []judge.Feature
		want  string
	}{
		"derived, not said":    {fault{oversell: 5, derived: true}, nil, "oversold drift history"},
		"derived":              {fault{oversell: 5, derived: true}, []judge.Feature{judge.Counter}, "oversold history"},
		"derived, and drifts":  {fault{oversell: 5, derived: true, drift: 3}, []judge.Feature{judge.Counter}, "oversold drift history"},
		"not derived, no flag": {fault{drift: 3}, nil, "drift"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Lacks = tc.lacks
			c.patience.probe = time.Millisecond // after an oversell, a cancelled unit is not on sale again
			got := names(mustRun(t, c, judge.ExitViolation).Verdict)
			for _, name := range []string{judge.Oversold, judge.Drift} {
				if strings.Contains(got, name) != strings.Contains(tc.want, name) {
					t.Errorf("violations: got %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// A control sends one call at a time, and a later verdict names its result.
func TestControl(t *testing.T) {
	t.Parallel()
	shop := fault{about: &judge.About{Name: "Toy", Lacks: []judge.Feature{judge.Keys}}}
	s, url := newFake(t, shop)
	c := quick(url)
	c.InFlight = 1
	control := mustRun(t, c, judge.ExitPass)
	contains(t, text(t, control), "this run sends one call at a time")
	if s.highest != 1 {
		t.Errorf("calls at once: got %d, want 1", s.highest)
	}
	dir := t.TempDir()
	check.Must(t, control.Save(dir))

	_, c.Target = newFake(t, shop)
	c.InFlight, c.Control = 8, dir
	contains(t, text(t, mustRun(t, c, judge.ExitPass)), "passed: 240 orders, one at a time")
	c.Control = t.TempDir()
	if _, err := Run(check.Context(t), c); err == nil || !strings.Contains(err.Error(), "read the report of the control") {
		t.Errorf("control without a report: got error %v, want one that names the report", err)
	}
}

// A shop whose description cannot be understood is not attacked.
func TestBadAbout(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 429, 501} { // the call is optional
		_, url := newFake(t, fault{aboutStatus: status})
		mustRun(t, quick(url), judge.ExitPass)
	}
	_, url := newFake(t, fault{about: &judge.About{Name: "Toy", Lacks: []judge.Feature{"kees"}}})
	if _, err := Run(check.Context(t), quick(url)); err == nil || !strings.Contains(err.Error(), `unknown feature "kees", want one of keys, limit`) {
		t.Errorf("unknown feature: got error %v, want one that lists the features", err)
	}
	c := quick(url)
	c.Lacks = []judge.Feature{judge.Paying}
	c = c.ForPayment()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "the shop lacks pay") {
		t.Errorf("a sale on payment without payments: got error %v, want one that says so", err)
	}
}

// If a shop has no keys, no order is sent twice, not even after a lookup that was limited.
func TestOrdersAreSentOnce(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{about: &judge.About{Name: "Toy", Lacks: []judge.Feature{judge.Keys}}, async: true, dupe: true, busyLookups: true})
	c := quick(url)
	c.patience.known, c.patience.topUp = 50*time.Millisecond, 200*time.Millisecond
	rep, err := Run(check.Context(t), c)
	check.Must(t, err)
	if rep.Unannounced > 0 {
		t.Errorf("rows of orders that were sent twice: got %d, want none\n%s", rep.Unannounced, text(t, rep))
	}
}

// Fresh buyers pay if orders may expire, but not at a shop without payments.
func TestFreshBuyersDoNotPay(t *testing.T) {
	t.Parallel()
	s, url := newFake(t, fault{paidAtOnce: true})
	s.sku, s.total, s.available, s.limit = "S", 1, 1, 1
	c := quick(url)
	c.Lacks, c.PaymentWindow = []judge.Feature{judge.Paying}, time.Minute
	conns := client.NewHTTP(1, long)
	defer conns.CloseIdleConnections()
	r := &run{c: c, patience: c.withPatience(), client: client.New(url, "S", conns)}
	if bought, code := r.buy(check.Context(t), client.Buyer{Subject: "ann", Token: "ann"}, "key"); !bought || len(r.ledger.closings.read()) > 0 {
		t.Errorf("a fresh buyer: got bought %v, code %q and %d payments, want an order and no payment", bought, code, len(r.ledger.closings.read()))
	}
}

// A run ends although one of its orders is always answered 503.
func TestStuckOrder(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{stuck: "one-more"})
	c := quick(url)
	c.patience.known = 50 * time.Millisecond
	rep := mustRun(t, c, judge.ExitUnjudged)
	contains(t, text(t, rep), "outcome never became known")
	if rep.Interrupted {
		t.Error("the run: got interrupted by the end of the test, want an end by itself")
	}
}

// If a shop without an audit is never at rest, nothing is known about what it sold.
func TestRowsKeepChanging(t *testing.T) {
	t.Parallel()
	_, url := newFake(t, fault{noAudit: true, unsettled: true, feed: missing})
	c := quick(url)
	c.Lacks, c.patience.rest, c.patience.settle = []judge.Feature{judge.Auditing}, time.Millisecond, time.Millisecond
	contains(t, text(t, mustRun(t, c, judge.ExitUnjudged)), "oversold, undersold: the rows keep changing")
}

// Rows that still appear for orders whose clients gave up are no fault of the shop.
func TestShopIsStillWorking(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault
		exit int
		want string
	}{
		"still working":     {fault{slowRows: true, dupe: true}, judge.ExitUnjudged, "clients gave up on "},
		"changes by itself": {fault{unsettled: true, dupe: true}, judge.ExitViolation, "did not come to rest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := newFake(t, tc.fault)
			c := quick(url)
			c.Lacks, c.Stock = []judge.Feature{judge.Keys}, 300
			c.Search, c.patience.rest, c.patience.settle, c.patience.topUp = time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond
			contains(t, text(t, mustRun(t, c, tc.exit)), tc.want)
		})
	}
}
