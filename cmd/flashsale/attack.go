package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"flashsale/loadtest"
	"flashsale/loadtest/gentle"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// attackFlags holds the flags that demo and loadtest share. A pointer is nil if the
// flag is not set. Then the value of the scenario or the default applies.
type attackFlags struct {
	Scenario string         `placeholder:"FILE" completion-predictor:"scenario" help:"Play a scenario: a YAML file, or the name of an example (--scenario list shows them). A scenario defines the sales and the requests over time, so it cannot be combined with --sku, --stock, --limit, --rate, --duration or --shape. All other flags override the scenario." group:"Attack"`
	Stock    *int           `placeholder:"UNITS" help:"Units on sale. Default ${stock}." group:"Attack"`
	Buyers   *int           `placeholder:"NUMBER" help:"Distinct buyers. Default ${buyers}." group:"Attack"`
	Rate     *int           `placeholder:"PER-SECOND" help:"Requests per second, sent without waiting for responses. Default ${rate}." group:"Attack"`
	Duration *time.Duration `placeholder:"TIME" help:"Length of the attack. Default ${duration}." group:"Attack"`
	Shape    *string        `placeholder:"SHAPE" enum:"constant,ramp,burst" help:"Request rate over time: constant, ramp (from a tenth of the rate up to the rate) or burst (the requests of each second at once). Default ${shape}." group:"Attack"`
	Timeout  *time.Duration `placeholder:"TIME" help:"Timeout of a request. After a timeout the buyer retries with the same key. Default ${timeout}." group:"Attack"`
	Seed     *int64         `placeholder:"NUMBER" help:"Seed of the random choices, such as quantities and payments. The order in which requests arrive still varies between runs. Default ${seed}." group:"Attack"`

	Serial   bool `xor:"flight" help:"Send one call at a time, also calls after the attack. --rate times --duration is then only the number of orders. The run is the control of a shop: its orders do not compete." group:"Attack"`
	InFlight int  `xor:"flight" placeholder:"NUMBER" help:"Send the next order when one of this many calls ends, instead of at the rate." group:"Attack"`

	ReserveOn *string `placeholder:"order|payment" enum:"order,payment" help:"When an order takes its units: order (when it is placed) or payment (when it is paid). Default order." group:"Attack"`

	Limit         *int           `placeholder:"UNITS" help:"Maximum units per buyer. Default ${limit}." group:"Buyers"`
	MaxQuantity   *int           `placeholder:"UNITS" help:"Maximum units per order. Each order asks for at least 1. Default ${max_quantity}." group:"Buyers"`
	Replays       *float64       `placeholder:"SHARE" help:"Share of requests that repeat an idempotency key. Default ${replays}." group:"Buyers"`
	SecondOrders  *float64       `placeholder:"SHARE" help:"Share of requests whose buyers already have units. Default ${second_orders}." group:"Buyers"`
	Cancels       *float64       `placeholder:"SHARE" help:"Share of accepted orders that are cancelled. Default ${cancels}." group:"Buyers"`
	Payments      *float64       `placeholder:"SHARE" help:"Share of accepted orders that are paid. Default ${payments}; with --reserve-on payment, 90 % of the orders that are not cancelled." group:"Buyers"`
	PaymentWindow *time.Duration `placeholder:"TIME" help:"Time to pay before an order expires. Default ${payment_window}." group:"Buyers"`

	FailIf []string `placeholder:"CONDITION" sep:"none" help:"Exit with status 1 if this is true of a figure of the JSON report, such as 'latency_ms.p99>250ms' or 'durable_per_s<500', and with status 2 if the figure is null. Can be repeated." group:"Result"`
	Report string   `placeholder:"DIR" help:"Write report.html (with charts), report.json and report.txt to this directory." group:"Result"`
	JSON   bool     `name:"json" help:"Print the verdict as one JSON object on stdout. All other output goes to stderr." group:"Result"`
	Quiet  bool     `help:"Do not print progress." group:"Result"`
}

// attackDefaults returns the default values that the help texts contain.
func attackDefaults() kong.Vars {
	c := loadtest.Defaults()
	vars := kong.Vars{}
	for name, value := range map[string]any{
		"stock": c.Stock, "buyers": c.Buyers, "rate": c.Rate, "duration": c.Duration, "shape": c.Shape,
		"timeout": c.Timeout, "seed": c.Seed, "limit": c.UnitsPerBuyer, "max_quantity": c.MaxQuantity,
		"replays": c.Replays, "second_orders": c.SecondOrders, "cancels": c.CancelShare, "payments": c.Payments,
		"payment_window": c.PaymentWindow, "crowd_rate": gentle.Rate, "crowd_duration": gentle.Duration,
	} {
		vars[name] = strings.Replace(fmt.Sprint(value), "m0s", "m", 1) // write 15m instead of 15m0s
	}
	return vars
}

// adjustAttack changes the Config of each attack. Tests replace it to limit the requests
// in flight instead of the rate.
var adjustAttack = func(*loadtest.Config) {}

// config returns the defaults, overridden by the scenario, overridden by the flags.
func (f *attackFlags) config(s streams) (c loadtest.Config, err error) {
	c = loadtest.Defaults()
	if f.Report != "" {
		if err := report.CheckDir(f.Report); err != nil { // fail before the attack
			return c, err
		}
	}
	for _, condition := range f.FailIf {
		threshold, err := report.ParseThreshold(condition)
		if err != nil {
			return c, fmt.Errorf("--fail-if: %w", err)
		}
		c.FailIf = append(c.FailIf, threshold)
	}
	if f.Scenario != "" {
		if err := f.conflicts(); err != nil {
			return c, err
		}
		scenario, err := loadtest.ReadScenario(f.Scenario)
		if err != nil {
			return c, err
		}
		scenario.ApplyTo(&c)
	}
	loadtest.SetIfGiven(&c.Stock, f.Stock)
	loadtest.SetIfGiven(&c.Buyers, f.Buyers)
	loadtest.SetIfGiven(&c.Rate, f.Rate)
	loadtest.SetIfGiven(&c.Duration, f.Duration)
	loadtest.SetIfGiven(&c.Shape, f.Shape)
	loadtest.SetIfGiven(&c.Timeout, f.Timeout)
	loadtest.SetIfGiven(&c.Seed, f.Seed)
	loadtest.SetIfGiven(&c.UnitsPerBuyer, f.Limit)
	loadtest.SetIfGiven(&c.MaxQuantity, f.MaxQuantity)
	loadtest.SetIfGiven(&c.Replays, f.Replays)
	loadtest.SetIfGiven(&c.SecondOrders, f.SecondOrders)
	loadtest.SetIfGiven(&c.CancelShare, f.Cancels)
	if f.ReserveOn != nil && *f.ReserveOn == judge.OnPayment {
		c = c.ForPayment()
	}
	loadtest.SetIfGiven(&c.Payments, f.Payments)
	loadtest.SetIfGiven(&c.PaymentWindow, f.PaymentWindow)
	if c.InFlight = f.InFlight; f.Serial {
		c.InFlight = 1
	}
	c.Command, c.Program = commandLine(s.args), version()
	adjustAttack(&c)
	if !f.Quiet {
		c.Progress = s.err
	}
	return c, f.check(c)
}

// conflicts returns an error that names the flags that cannot be combined with a scenario.
func (f *attackFlags) conflicts() error {
	given := map[string]bool{
		"--stock": f.Stock != nil, "--limit": f.Limit != nil, "--rate": f.Rate != nil, "--duration": f.Duration != nil, "--shape": f.Shape != nil,
	}
	both := []string{"--stock", "--limit", "--rate", "--duration", "--shape"}
	if both = slices.DeleteFunc(both, func(flag string) bool { return !given[flag] }); len(both) == 0 {
		return nil
	}
	return fmt.Errorf("%s: cannot be combined with --scenario, which defines this value for each sale and phase", strings.Join(both, ", "))
}

// finish prints and saves the verdict and returns the exit status.
func (f *attackFlags) finish(s streams, r *report.Reports) (err error) {
	if f.Report != "" {
		if err = r.Save(f.Report); err == nil && !f.Quiet {
			_, _ = fmt.Fprintln(s.err, "report written to", f.Report)
		}
	}
	return finish(s, r, f.JSON, err)
}
