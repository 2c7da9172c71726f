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

// Shapes of an attack. Each sends Rate × Duration requests in all.
const (
	Constant = "constant" // the same rate all along
	Ramp     = "ramp"     // from a tenth of Rate up, linearly, with Rate as the mean
	Burst    = "burst"    // a second's worth at once, every second
)

// maxBuyers leaves enough addresses in 10.0.0.0/8 for the fresh buyers after the
// attack.
const maxBuyers = 10_000_000

// Config says what to attack and how. Start from Defaults: a share of 0 means
// none. Run refuses a Config that Validate refuses.
type Config struct {
	Target string // base URL of the server, http or https

	// Token signs a bearer token for a buyer or, with admin, for an operator. It
	// is called by several goroutines, before and after the attack.
	Token func(subject string, admin bool) (string, error)

	SKU           string        // must have no orders yet; empty: a new one per run
	Name          string        // shown to buyers
	Stock         int           // units on sale
	PerBuyerLimit int           // units one buyer may hold
	PaymentWindow time.Duration // whole seconds; below Duration + 2 min, the verdict waits until it has passed
	Price         int64         // minor units of Currency
	Currency      string        // ISO 4217
	ReserveOn     string        // judge.OnOrder or judge.OnPayment; empty: judge.OnOrder
	Visitors      bool          // other people may order, too; else the sale's name begins with client.Judged

	Buyers      int           // distinct buyers; fewer if Rate × Duration is smaller
	Rate        int           // requests per second, sent whether or not answers return
	Duration    time.Duration // of the attack, without the steps after it
	Shape       string        // Constant, Ramp or Burst
	Phases      []Phase       // one after the other, in place of Rate, Duration and Shape
	InFlight    int           // bound on concurrent calls, including those of new buyers and followers; orders are sent as answers return, not at Rate. 0 means no bound
	Zipf        float64       // 0: buyers come in turn. Above 1: the k-th of them comes with a weight of 1/k^Zipf
	MaxQuantity int           // each order asks for 1..MaxQuantity units

	// Sales that share the attack, each judged by itself; see RunAll. Empty:
	// one, of SKU, Name, Stock and PerBuyerLimit.
	Sales    []Sale
	Scenario string // its name, for the report; empty: none

	// Shares, from 0 to 1. At 0 there is nothing of the kind, after the attack
	// either, and the report says that it was never exercised.
	Replays      float64 // share of requests that repeat a key: half at once, half of an accepted order
	SecondOrders float64 // share of requests by buyers who hold units and try to get beyond the limit
	Cancels      float64 // share of accepted orders cancelled shortly after their 201
	Payments     float64 // share of accepted orders paid; the rest stays pending

	Seed     int64         // fixes kinds, quantities and fates, but not how requests interleave
	Repair   time.Duration // the time that the server has to repair drift, after which the drift is a violation; 0 means 10 s
	Patience time.Duration // time limit of each step after the attack; 0 means 30 s for most steps
	Search   time.Duration // limit of the search for an order of events that explains all answers; 0: 2 s
	Timeout  time.Duration // of one request; after it the outcome is unknown, and asked for later
	Progress io.Writer     // receives lines; nil: none

	// For the report; empty: not known.
	Strategy string // of the server
	Stores   string // of the server: "embedded" or "real"
	Versions string // of the stores
	Command  string // the command line that this attack comes from
	Program  string // that attacks, with its revision

	patience patience // zero: as in withPatience; tests shorten it
}

// Defaults is the demo's attack: 20,000 requests in ten seconds for 1,000
// units. Target and Token are the caller's to fill in.
func Defaults() Config {
	return Config{
		Name: "Flash sale", Stock: 1000, PerBuyerLimit: 2, PaymentWindow: 15 * time.Minute,
		Price: 1990, Currency: "EUR",
		Buyers: 20_000, Rate: 2000, Duration: 10 * time.Second, Shape: Constant, MaxQuantity: 2,
		Replays: 0.10, SecondOrders: 0.10, Cancels: 0.10, Payments: 0.30,
		Seed: 1, Timeout: 5 * time.Second,
	}
}

// ForPayment is c for a sale that takes units on payment. Of those who do not
// cancel, nine in ten pay, and pay at once: buyers compete with their payments.
func (c Config) ForPayment() Config {
	c.ReserveOn = judge.OnPayment
	c.Payments = 0.9 * (1 - c.Cancels)
	return c
}

func (c Config) onPayment() bool { return c.ReserveOn == judge.OnPayment }

var (
	skuForm      = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
)

// Validate reports all faults at once. Each names its field.
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
	check(c.Token != nil, "Token: nothing to sign tokens with")
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
	check(c.Zipf == 0 || c.Zipf > 1 && c.Zipf <= 10, "Zipf: %v, want 0 or above 1, and 10 at most", c.Zipf)
	share := func(name string, v float64) {
		check(v >= 0 && v <= 1, "%s: %v, want a share from 0 to 1", name, v)
	}
	share("Replays", c.Replays)
	share("SecondOrders", c.SecondOrders)
	share("Cancels", c.Cancels)
	share("Payments", c.Payments)
	check(c.Replays+c.SecondOrders < 1, "Replays, SecondOrders: together %v, which leaves no first orders", c.Replays+c.SecondOrders)
	check(c.Cancels+c.Payments <= 1, "Cancels, Payments: together %v, more than every order", c.Cancels+c.Payments)
	check(c.Timeout > 0, "Timeout: %v, want more than 0", c.Timeout)
	return errors.Join(faults...)
}

// expiring says whether orders may expire before the run ends. Then fresh buyers
// pay, so that their orders do not expire, and the verdict waits until no order
// is pending.
func (c Config) expiring() bool { return c.PaymentWindow < c.Duration+2*time.Minute }

// patience is how long each step after the attack may take.
type patience struct {
	rest    time.Duration // a sale whose audit stays the same for so long is at rest
	settle  time.Duration // a sale that is not at rest by then is a violation
	known   time.Duration // for unknown outcomes to become known
	topUp   time.Duration // for fresh buyers to hear sold_out
	probe   time.Duration // for a cancelled unit to come back
	overdue time.Duration // for the sweep to expire an order whose time has run out
	probes  int           // how many there are
}

func (c Config) withPatience() patience {
	p := cmp.Or(c.patience, patience{
		rest: 500 * time.Millisecond, settle: 30 * time.Second, known: 30 * time.Second,
		topUp: 60 * time.Second, probe: 5 * time.Second, overdue: 10 * time.Second, probes: 20,
	})
	if c.Patience > 0 {
		p.settle, p.known, p.topUp, p.probe, p.overdue = c.Patience, c.Patience, c.Patience, c.Patience, c.Patience
	}
	if c.expiring() {
		// Pending orders expire over as long a time as they were placed in, and
		// each changes the audit.
		p.settle += c.Duration
	}
	return p
}

// saleTerms are what c's one sale is opened with.
func (c Config) saleTerms() client.Sale {
	name := c.Name
	if !c.Visitors {
		name = client.Judged + name
	}
	return client.Sale{
		Name: name, Price: c.Price, Currency: c.Currency, Total: int64(c.Stock), PerBuyerLimit: int64(c.PerBuyerLimit),
		PaymentWindowS: int64(c.PaymentWindow / time.Second), ReserveOn: c.ReserveOn,
	}
}

// reportConfig returns what the reports show of c.
func (c Config) reportConfig() report.Config {
	return report.Config{
		Name: c.Name, Strategy: c.Strategy, Stores: c.Stores, Scenario: c.Scenario,
		Schedule: c.schedule(), Burst: c.whole().Shape == Burst,
		Versions: c.Versions, Command: c.Command, Program: c.Program, Seed: c.Seed, Cores: runtime.NumCPU(),
	}
}

// Sale is one of several that share an attack. In a scenario the name may be left
// out, and is the SKU then; the limit and the weight are 1 by default.
type Sale struct {
	SKU           string  // must have no orders yet; empty: a new one per run
	Name          string  // shown to buyers
	Stock         int     // units on sale
	PerBuyerLimit int     `yaml:"limit"` // units one buyer may hold
	Weight        float64 // its share of the orders is Weight over the sum of all weights
}

// sales are those under attack, at least one.
func (c Config) sales() []Sale {
	if len(c.Sales) > 0 {
		return c.Sales
	}
	return []Sale{{SKU: c.SKU, Name: c.Name, Stock: c.Stock, PerBuyerLimit: c.PerBuyerLimit, Weight: 1}}
}

// of is the config of one sale alone.
func (c Config) of(s Sale) Config {
	c.SKU, c.Name, c.Stock, c.PerBuyerLimit = s.SKU, s.Name, s.Stock, s.PerBuyerLimit
	c.MaxQuantity = min(c.MaxQuantity, s.PerBuyerLimit) // larger orders would be refused for their size
	return c
}

// newSKU is a SKU that nobody has used.
func newSKU(name string) string { return name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) }

func (c Config) validateSales(check func(ok bool, format string, args ...any)) {
	known, largest := map[string]bool{}, 0
	for i, s := range c.sales() {
		in := ""
		if len(c.Sales) > 0 {
			in = fmt.Sprintf("Sales[%d].", i)
		}
		check(s.SKU == "" || skuForm.MatchString(s.SKU), "%sSKU: %q does not match %s", in, s.SKU, skuForm)
		check(s.SKU == "" || !known[s.SKU], "%sSKU: %q is another sale's already", in, s.SKU)
		check(s.Name != "", "%sName: empty", in)
		check(s.Stock >= 1, "%sStock: %d, want at least 1", in, s.Stock)
		check(s.PerBuyerLimit >= 1, "%sPerBuyerLimit: %d, want at least 1", in, s.PerBuyerLimit)
		check(s.Weight > 0, "%sWeight: %v, want more than 0", in, s.Weight)
		known[s.SKU], largest = true, max(largest, s.PerBuyerLimit)
	}
	check(c.MaxQuantity >= 1 && c.MaxQuantity <= largest, "MaxQuantity: %d, want 1..PerBuyerLimit", c.MaxQuantity)
}
