package loadtest

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"time"
)

// Shapes of an attack. Each sends Rate × Duration requests in all.
const (
	Constant = "constant" // the same rate all along
	Ramp     = "ramp"     // from a tenth of Rate up, linearly, with Rate as the mean
	Burst    = "burst"    // a second's worth at once, every second
)

// When a sale takes units.
const (
	OnOrder   = "order"   // a 201 promises them
	OnPayment = "payment" // only "paid" does
)

// maxBuyers keeps every buyer, and the fresh ones after the attack, inside
// the addresses of 10.0.0.0/8.
const maxBuyers = 10_000_000

// Config says what to attack and how. Start from Defaults: a zero share means
// none, and Run refuses what makes no sense (see Validate).
type Config struct {
	Target string // base URL of the server, http or https

	// Token signs a bearer token for a buyer (or, with admin, an operator).
	// It is called from several goroutines, before the attack for its buyers
	// and between its phases for fresh ones, never on the attack's own path.
	Token func(subject string, admin bool) (string, error)

	SKU           string        // must have no orders yet; empty: a new one per run
	Name          string        // shown to buyers
	Stock         int           // units on sale
	PerBuyerLimit int           // units one buyer may hold
	PaymentWindow time.Duration // whole seconds; below Duration + 2 min the verdict waits for it to pass
	Price         int64         // minor units of Currency
	Currency      string        // ISO 4217
	ReserveOn     string        // OnOrder or OnPayment; empty: OnOrder

	Buyers      int           // distinct buyers; fewer come when Rate × Duration is smaller
	Rate        int           // requests per second, sent whether or not answers return
	Duration    time.Duration // of the attack, not of the phases after it
	Shape       string        // Constant, Ramp or Burst
	MaxQuantity int           // each order asks for 1..MaxQuantity units

	// Shares. At 0 there is nothing of the kind, not in the probes after the
	// attack either, and the report says that it was never exercised.
	Replays      float64 // share of requests that repeat a key: half at once, half of an accepted order
	SecondOrders float64 // share of requests by buyers who hold units, to go beyond the limit
	Cancels      float64 // share of accepted orders cancelled shortly after their 201
	Payments     float64 // share of accepted orders paid; the rest stays pending

	Seed     int64         // fixes kinds, quantities and fates; not how requests interleave
	Search   time.Duration // for an order of the history that explains all answers, at most; 0: 2 s
	Timeout  time.Duration // of one request; after it the outcome is unknown and asked for later
	Progress io.Writer     // nil: none. A bar on a terminal, plain lines elsewhere

	Strategy string // echoed into the report: which gate the server runs; empty: not known
	Stores   string // echoed into the report: "embedded" or "real"; empty: not known

	patience patience // zero: as documented; tests shorten it
}

// Defaults is the demo's attack: 20,000 requests in ten seconds for 1,000
// units. Target and Token are the caller's to fill in.
func Defaults() Config {
	return Config{
		Name: "Load test", Stock: 1000, PerBuyerLimit: 2, PaymentWindow: 15 * time.Minute,
		Price: 1990, Currency: "EUR",
		Buyers: 20_000, Rate: 2000, Duration: 10 * time.Second, Shape: Constant, MaxQuantity: 2,
		Replays: 0.10, SecondOrders: 0.10, Cancels: 0.10, Payments: 0.30,
		Seed: 1, Timeout: 5 * time.Second,
	}
}

// ForPayment is c for a sale that takes units on payment. The fight is for the
// payments then: of those who do not cancel, nine in ten pay, and at once.
func (c Config) ForPayment() Config {
	c.ReserveOn = OnPayment
	c.Payments = 0.9 * (1 - c.Cancels)
	return c
}

func (c Config) onPayment() bool { return c.ReserveOn == OnPayment }

var (
	skuForm      = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
)

// Validate reports every fault at once, each naming its field.
func (c Config) Validate() error {
	var faults []error
	// One at a time would cost whoever fills this in one run per mistake.
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("loadtest: "+format, args...))
		}
	}
	u, err := url.Parse(c.Target)
	check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "",
		"Target: %q is not an http(s) base URL", c.Target)
	check(c.Token != nil, "Token: nothing to sign tokens with")
	check(c.SKU == "" || skuForm.MatchString(c.SKU), "SKU: %q does not match %s", c.SKU, skuForm)
	check(c.Name != "", "Name: empty")
	check(c.Stock >= 1, "Stock: %d, want at least 1", c.Stock)
	check(c.PerBuyerLimit >= 1, "PerBuyerLimit: %d, want at least 1", c.PerBuyerLimit)
	check(c.PaymentWindow >= time.Second && c.PaymentWindow%time.Second == 0,
		"PaymentWindow: %v, want whole seconds, at least one", c.PaymentWindow)
	check(c.Price >= 0, "Price: %d is negative", c.Price)
	check(currencyForm.MatchString(c.Currency), "Currency: %q is not three capital letters", c.Currency)
	check(c.ReserveOn == "" || c.ReserveOn == OnOrder || c.ReserveOn == OnPayment,
		"ReserveOn: %q, want %s or %s", c.ReserveOn, OnOrder, OnPayment)
	check(c.Buyers >= 1 && c.Buyers <= maxBuyers, "Buyers: %d, want 1..%d", c.Buyers, maxBuyers)
	check(c.Rate >= 1, "Rate: %d, want at least 1 per second", c.Rate)
	check(c.Duration >= 100*time.Millisecond, "Duration: %v, want at least 100ms", c.Duration)
	check(c.Shape == Constant || c.Shape == Ramp || c.Shape == Burst,
		"Shape: %q, want %s, %s or %s", c.Shape, Constant, Ramp, Burst)
	check(c.MaxQuantity >= 1 && c.MaxQuantity <= c.PerBuyerLimit,
		"MaxQuantity: %d, want 1..PerBuyerLimit", c.MaxQuantity)
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

// requests is how many orders the attack sends: replays and second orders
// among them, so that Rate is what the server sees.
func (c Config) requests() int { return max(1, int(float64(c.Rate)*c.Duration.Seconds())) }

// expiring says whether the attack's orders may run out of time while the run
// is still being judged. Then fresh buyers pay, so that theirs do not, and the
// verdict waits until none of the others is left pending.
func (c Config) expiring() bool { return c.PaymentWindow < c.Duration+2*time.Minute }

// patience is how long each phase after the attack may take.
type patience struct {
	rest   time.Duration // two equal audits this far apart: at rest
	settle time.Duration // not at rest within this: a violation
	repair time.Duration // for a server to mend drift by itself
	known  time.Duration // for unknown outcomes to become known
	topUp  time.Duration // for fresh buyers to hear sold_out
	probe  time.Duration // for one cancelled unit to come back
	// overdue is how long after its time an order may still be pending: expiry
	// is a sweep.
	overdue time.Duration
	probes  int
}

func (c Config) withPatience() patience {
	p := c.patience
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&p.rest, 500*time.Millisecond)
	set(&p.settle, 30*time.Second)
	set(&p.repair, 10*time.Second)
	set(&p.known, 30*time.Second)
	set(&p.topUp, 60*time.Second)
	set(&p.probe, 5*time.Second)
	set(&p.overdue, 10*time.Second)
	if p.probes == 0 {
		p.probes = 20
	}
	if c.expiring() {
		// Orders left pending expire over as long a time as they were placed
		// in, and each changes the audit.
		p.settle += c.Duration
	}
	return p
}
