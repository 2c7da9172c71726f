package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// Shapes of an attack. Each shape sends Rate × Duration requests in total.
const (
	Constant = "constant" // Rate requests per second
	Ramp     = "ramp"     // a rate that rises linearly from a tenth of Rate; its mean is Rate
	Burst    = "burst"    // Rate requests at once, every second
)

// maxBuyers leaves addresses in 10.0.0.0/8 for the fresh buyers after the attack.
const maxBuyers = 10_000_000

// Config describes one attack. Start from Defaults, because a share of 0 means that no buyer
// cancels, pays or repeats an order. Run returns an error if Validate does.
type Config struct {
	Target string // base URL of the server, http or https

	// Token returns a bearer token for a buyer or, if admin is true, for an operator.
	// It must be safe for concurrent use.
	Token func(subject string, admin bool) (string, error)

	SKU           string        // must have no orders yet; empty for a new SKU
	Name          string        // name that buyers see
	Stock         int           // units on sale
	UnitsPerBuyer int           // units that one buyer may hold
	PaymentWindow time.Duration // in whole seconds; if it is shorter than Duration + 2 min, the verdict waits until no order is pending
	Price         int64         // price in minor units of Currency
	Currency      string        // ISO 4217
	ReserveOn     string        // judge.OnOrder or judge.OnPayment; empty means judge.OnOrder
	Visitors      bool          // other buyers may order too; if false, the sale's name gets the prefix client.Judged

	Buyers   int           // number of buyers, at most the number of requests
	Rate     int           // requests per second, independent of answers
	Duration time.Duration // length of the attack, without the steps after it
	Shape    string        // Constant, Ramp or Burst
	Phases   []Phase       // sent one after the other instead of Rate, Duration and Shape
	// InFlight limits concurrent calls, also calls of fresh buyers and followers. 0 means
	// no limit. If it is set, a call that ends starts the next order. With 1, no calls overlap,
	// so a correct adapter passes.
	InFlight    int
	Paced       bool    // with InFlight: no order is sent before Rate makes it due; otherwise Rate gives only their number
	Zipf        float64 // 0: buyers take turns; above 1: buyer k orders with weight 1/k^Zipf
	MaxQuantity int     // largest quantity of an order; quantities start at 1

	// Sales share the attack, and each gets its own verdict; see RunAll. If Sales is
	// empty, there is one sale with SKU, Name, Stock and UnitsPerBuyer.
	Sales    []Sale
	Scenario string // name of the scenario in the report; may be empty

	// Shares from 0 to 1. If a share is 0, nothing of its kind is sent, not even after
	// the attack, and the report lists it as not put to the test.
	Replays      float64 // share of requests that repeat a key, half of them right after the first request, half after its 201
	SecondOrders float64 // share of requests by buyers who already hold units and try to exceed the limit
	CancelShare  float64 // share of accepted orders that are cancelled soon after their 201
	Payments     float64 // share of accepted orders that are paid; orders neither paid nor cancelled stay pending

	Seed int64 // fixes kinds, quantities and fates, but not the timing of requests
	// Lacks names features that the shop does not have. The features in the shop's answer to
	// GET /v1/about are added. The load test does not use them, and their checks do not apply.
	Lacks   []judge.Feature
	FailIf  []report.Threshold // limits for figures of the report
	Control string             // directory with the report of a run with InFlight 1; the report compares it; may be empty

	Settle    time.Duration // a sale is at rest if its audit, or its rows if it has none, stay the same for this time; 0 means 500 ms
	ProbeWait time.Duration // time limit until a cancelled unit is on sale again; 0 means 5 s
	Repair    time.Duration // drift that lasts longer than this is a violation; 0 means 10 s
	Patience  time.Duration // time limit of each step after the attack; 0 means 5 s to 60 s, depending on the step
	Search    time.Duration // time limit of the History check; 0 means 2 s
	Timeout   time.Duration // time limit of one request, after which its outcome is unknown
	Progress  io.Writer     // receives a line per step, or one every two seconds in long steps; nil for none

	// These fields appear in the report. Empty means not known.
	Strategy string // strategy of the server
	Stores   string // stores of the server: "embedded" or "real"
	Versions string // versions of the stores
	Command  string // command line of this run
	Program  string // name and revision of this program

	keys     string       // prefix of the keys of this run
	patience patience     // set by tests only; zero means the values of withPatience
	shop     *judge.About // set by the run; nil for a shop that keeps the whole contract
	control  string       // set by the run: the result of Control
}

// Defaults returns the attack of the demo: 20,000 requests in ten seconds for 1,000
// units. The caller sets Target and Token.
func Defaults() Config {
	return Config{
		Name: "Flash sale", Stock: 1000, UnitsPerBuyer: 2, PaymentWindow: 15 * time.Minute,
		Price: 1990, Currency: "EUR",
		Buyers: 20_000, Rate: 2000, Duration: 10 * time.Second, Shape: Constant, MaxQuantity: 2,
		Replays: 0.10, SecondOrders: 0.10, CancelShare: 0.10, Payments: 0.30,
		Seed: 1, Timeout: 5 * time.Second,
	}
}

// ForPayment returns c for a sale that takes units on payment. Nine in ten of the
// buyers who do not cancel pay at once, so that payments compete for the units.
func (c Config) ForPayment() Config {
	c.ReserveOn = judge.OnPayment
	c.Payments = 0.9 * (1 - c.CancelShare)
	return c
}

// atOnce returns the number of callers of a step. A caller that waited for one of InFlight
// connections would use up its timeout.
func (c Config) atOnce(callers int) int { return min(callers, cmp.Or(c.InFlight, callers)) }

func (c Config) onPayment() bool { return c.ReserveOn == judge.OnPayment }

var (
	skuForm      = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
)

// Validate reports all invalid fields in one error, or nil.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("loadtest: "+format, args...))
		}
	}
	u, err := url.Parse(c.Target)
	check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
		"Target: %q is not an http(s) base URL", c.Target)
	check(c.Token != nil, "Token: nil, want a function that signs tokens")
	c.validateSales(check)
	check(c.PaymentWindow >= time.Second && c.PaymentWindow%time.Second == 0,
		"PaymentWindow: %v, want whole seconds, at least one", c.PaymentWindow)
	check(c.Price >= 0, "Price: %d is negative", c.Price)
	check(currencyForm.MatchString(c.Currency), "Currency: %q is not three capital letters", c.Currency)
	check(c.ReserveOn == "" || c.ReserveOn == judge.OnOrder || c.ReserveOn == judge.OnPayment,
		"ReserveOn: %q, want %s or %s", c.ReserveOn, judge.OnOrder, judge.OnPayment)
	check(c.Buyers >= 1 && c.Buyers <= maxBuyers, "Buyers: %d, want 1..%d", c.Buyers, maxBuyers)
	c.validatePhases(check)
	check(c.InFlight >= 0, "InFlight: %d is negative", c.InFlight)
	check(c.Zipf == 0 || c.Zipf > 1 && c.Zipf <= 10, "Zipf: %v, want 0, or more than 1 and at most 10", c.Zipf)
	share := func(name string, v float64) {
		check(v >= 0 && v <= 1, "%s: %v, want a share from 0 to 1", name, v)
	}
	share("Replays", c.Replays)
	share("SecondOrders", c.SecondOrders)
	share("Cancels", c.CancelShare)
	share("Payments", c.Payments)
	check(c.Replays+c.SecondOrders < 1, "Replays, SecondOrders: together %v, want less than 1, so that first orders are left", c.Replays+c.SecondOrders)
	check(c.CancelShare+c.Payments <= 1, "Cancels, Payments: together %v, want at most 1", c.CancelShare+c.Payments)
	check(c.Settle >= 0, "Settle: %v is negative", c.Settle)
	check(c.ProbeWait >= 0, "ProbeWait: %v is negative", c.ProbeWait)
	check(!c.lacks(judge.Paying) || !c.onPayment(), "ReserveOn: %s, but the shop lacks %s", c.ReserveOn, judge.Paying)
	check(c.Timeout > 0, "Timeout: %v, want more than 0", c.Timeout)
	return errors.Join(faults...)
}

// expiring reports whether orders may expire before the run ends. Then fresh buyers
// pay, so that their orders do not expire, and the verdict waits until no order is
// pending.
func (c Config) expiring() bool { return c.PaymentWindow < c.Duration+2*time.Minute }

// patience holds the time limits of the steps after the attack.
type patience struct {
	rest    time.Duration // a sale is at rest if its audit stays the same for this time
	settle  time.Duration // limit of the wait for rest; afterwards the sale is Unsettled
	known   time.Duration // limit of the retries of unknown outcomes
	topUp   time.Duration // limit between two sales to fresh buyers
	probe   time.Duration // limit until a cancelled unit is on sale again
	overdue time.Duration // time that the sweep may take to expire an order
	feed    time.Duration // limit between two pages of the feed at the end
	refused time.Duration // time after which a run stops if every connection is refused
	probes  int           // number of probes
}

func (c Config) withPatience() patience {
	p := cmp.Or(c.patience, patience{
		rest: 500 * time.Millisecond, settle: 30 * time.Second, known: 30 * time.Second,
		topUp: 60 * time.Second, probe: 5 * time.Second, overdue: 10 * time.Second, feed: 10 * time.Second, probes: 20,
	})
	p.refused = cmp.Or(p.refused, 15*time.Second)
	p.rest = cmp.Or(c.Settle, p.rest)
	p.settle = max(p.settle, 10*p.rest)
	if c.Patience > 0 {
		p.settle, p.known, p.topUp, p.probe, p.overdue, p.feed = c.Patience, c.Patience, c.Patience, c.Patience, c.Patience, c.Patience
	}
	p.probe = cmp.Or(c.ProbeWait, p.probe)
	if c.expiring() {
		// Pending orders expire one after another, over a period of Duration. The sale cannot
		// be at rest before the last of them, because each expiry changes the audit.
		p.settle += c.Duration
	}
	return p
}

// saleTerms returns the terms with which the single sale of c is opened.
func (c Config) saleTerms() client.Sale {
	name := c.Name
	if !c.Visitors {
		name = client.JudgedNamePrefix + name
	}
	return client.Sale{
		Name: name, Price: c.Price, Currency: c.Currency, Total: int64(c.Stock), UnitsPerBuyer: int64(c.UnitsPerBuyer),
		PaymentWindowS: int64(c.PaymentWindow / time.Second), ReserveOn: c.ReserveOn,
	}
}

// reportConfig returns the fields of c that the reports show.
func (c Config) reportConfig() report.Config {
	rate := c.whole().Rate
	if c.InFlight > 0 && !c.Paced {
		rate = 0
	}
	return report.Config{
		Name: c.Name, Strategy: c.Strategy, Stores: c.Stores, Scenario: c.Scenario,
		Schedule: c.schedule(), Burst: c.whole().Shape == Burst,
		Versions: c.Versions, Command: c.Command, Program: c.Program, Seed: c.Seed, Cores: runtime.NumCPU(),
		Rate: rate, Target: c.Target, Serial: c.InFlight == 1, Shop: c.shop, Control: c.control, FailIf: c.FailIf,
	}
}

// Sale is one of several sales that share an attack. In a scenario, the default of Name
// is the SKU, and the default of the limit and of Weight is 1.
type Sale struct {
	SKU           string  // must have no orders yet; empty for a new SKU
	Name          string  // name that buyers see
	Stock         int     // units on sale
	UnitsPerBuyer int     `yaml:"limit"` // units that one buyer may hold
	Weight        float64 // share of the orders: Weight divided by the sum of all weights
}

// sales returns the sales of the attack, at least one.
func (c Config) sales() []Sale {
	if len(c.Sales) > 0 {
		return c.Sales
	}
	return []Sale{{SKU: c.SKU, Name: c.Name, Stock: c.Stock, UnitsPerBuyer: c.UnitsPerBuyer, Weight: 1}}
}

// forSale returns the config of one sale.
func (c Config) forSale(s Sale) Config {
	c.SKU, c.Name, c.Stock, c.UnitsPerBuyer = s.SKU, s.Name, s.Stock, s.UnitsPerBuyer
	c.MaxQuantity = min(c.MaxQuantity, s.UnitsPerBuyer) // a larger order would only be refused for its size
	return c
}

// key returns an idempotency key with this name, which no other run uses.
func (c Config) key(name string) string { return c.keys + name }

// newSKU returns a SKU that has not been used.
func newSKU(name string) string { return name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) }

func (c Config) validateSales(check func(ok bool, format string, args ...any)) {
	known, largest := map[string]bool{}, 0
	for i, s := range c.sales() {
		in := ""
		if len(c.Sales) > 0 {
			in = fmt.Sprintf("Sales[%d].", i)
		}
		check(s.SKU == "" || skuForm.MatchString(s.SKU), "%sSKU: %q does not match %s", in, s.SKU, skuForm)
		check(s.SKU == "" || !known[s.SKU], "%sSKU: %q is the SKU of another sale", in, s.SKU)
		check(s.Name != "", "%sName: empty", in)
		check(s.Stock >= 1, "%sStock: %d, want at least 1", in, s.Stock)
		check(s.UnitsPerBuyer >= 1, "%sUnitsPerBuyer: %d, want at least 1", in, s.UnitsPerBuyer)
		check(s.Weight > 0, "%sWeight: %v, want more than 0", in, s.Weight)
		known[s.SKU], largest = true, max(largest, s.UnitsPerBuyer)
	}
	check(c.MaxQuantity >= 1 && c.MaxQuantity <= largest, "MaxQuantity: %d, want 1..UnitsPerBuyer", c.MaxQuantity)
}

// TokenLife returns the time for which the tokens of a run must be valid: the attack, and for
// each sale the steps after it.
func (c Config) TokenLife() time.Duration {
	c = c.whole()
	p := c.withPatience()
	steps := 10 * (p.settle + p.known + p.topUp)
	if c.expiring() {
		steps += c.PaymentWindow
	}
	return c.Duration + time.Duration(len(c.sales()))*steps
}
