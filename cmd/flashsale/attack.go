package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"flashsale/loadtest"
)

// attackFlags are those of demo and loadtest. Each that is a pointer is nil
// unless it was given: a scenario may have said otherwise.
type attackFlags struct {
	Scenario string         `placeholder:"FILE" help:"Play a scenario: a YAML file, or the name of an example; --scenario list shows those. It says what is on sale and when how many come, so it can't go with --sku, --stock, --limit, --rate, --duration and --shape. Any other flag wins over it." group:"Attack"`
	Stock    *int           `placeholder:"UNITS" help:"Units on sale. Default ${stock}." group:"Attack"`
	Buyers   *int           `placeholder:"NUMBER" help:"Distinct buyers. Default ${buyers}." group:"Attack"`
	Rate     *int           `placeholder:"PER-SECOND" help:"Requests per second, whether or not answers return. Default ${rate}." group:"Attack"`
	Duration *time.Duration `placeholder:"TIME" help:"Of the attack. Default ${duration}." group:"Attack"`
	Shape    *string        `placeholder:"SHAPE" enum:"constant,ramp,burst" help:"constant, ramp (from a tenth of the rate up) or burst (a second's worth at once). Default ${shape}." group:"Attack"`
	Timeout  *time.Duration `placeholder:"TIME" help:"Of one request; after it the outcome is asked for under the same key. Default ${timeout}." group:"Attack"`
	Seed     *int64         `placeholder:"NUMBER" help:"Fixes quantities and fates, not how requests interleave. Default ${seed}." group:"Attack"`

	ReserveOn *string `placeholder:"order|payment" enum:"order,payment" help:"When units are taken. payment: an order promises none, and all fight for them when they pay. Default order." group:"Attack"`

	Limit         *int           `placeholder:"UNITS" help:"Units one buyer may hold. Default ${limit}." group:"Buyers"`
	MaxQuantity   *int           `placeholder:"UNITS" help:"Each order asks for 1 to this many. Default ${max_quantity}." group:"Buyers"`
	Replays       *float64       `placeholder:"SHARE" help:"Share of requests that repeat an idempotency key. Default ${replays}." group:"Buyers"`
	SecondOrders  *float64       `placeholder:"SHARE" help:"Share of requests by buyers who hold units, to go beyond the limit. Default ${second_orders}." group:"Buyers"`
	Cancels       *float64       `placeholder:"SHARE" help:"Share of accepted orders that are cancelled. Default ${cancels}." group:"Buyers"`
	Payments      *float64       `placeholder:"SHARE" help:"Share of accepted orders that are paid. Default ${payments}; with --reserve-on payment nine in ten of those that are not cancelled." group:"Buyers"`
	PaymentWindow *time.Duration `placeholder:"TIME" help:"Time to pay, before an order expires. Default ${payment_window}." group:"Buyers"`

	Report  string `placeholder:"DIR" help:"Write report.html, with charts, report.json and report.txt there." group:"Result"`
	Save    string `placeholder:"FILE" help:"Save the run's figures, for --against." group:"Result"`
	Against string `placeholder:"FILE" help:"Compare with a run that was saved. The exit status is the verdict's all the same." group:"Result"`
	JSON    bool   `name:"json" help:"Print the verdict as one JSON object on stdout; all else goes to stderr." group:"Result"`
	Quiet   bool   `help:"No progress." group:"Result"`
}

// attackDefaults are what the help says.
func attackDefaults() kong.Vars {
	c := loadtest.Defaults()
	vars := kong.Vars{}
	for name, value := range map[string]any{
		"stock": c.Stock, "buyers": c.Buyers, "rate": c.Rate, "duration": c.Duration, "shape": c.Shape,
		"timeout": c.Timeout, "seed": c.Seed, "limit": c.PerBuyerLimit, "max_quantity": c.MaxQuantity,
		"replays": c.Replays, "second_orders": c.SecondOrders, "cancels": c.Cancels, "payments": c.Payments,
		"payment_window": "15m",
	} {
		vars[name] = fmt.Sprint(value)
	}
	return vars
}

// listed prints the example scenarios, if that is what was asked for.
func (f *attackFlags) listed(s streams) (bool, error) {
	if f.Scenario != "list" {
		return false, nil
	}
	return true, loadtest.ListScenarios(s.out)
}

// config is what the scenario and the flags ask for, and the run to compare
// with, nil for none.
func (f *attackFlags) config(s streams) (c loadtest.Config, earlier *loadtest.Earlier, err error) {
	c = loadtest.Defaults()
	if f.Scenario != "" {
		if err := f.besides(); err != nil {
			return c, nil, err
		}
		scenario, err := loadtest.ReadScenario(f.Scenario)
		if err != nil {
			return c, nil, err
		}
		scenario.Into(&c)
	}
	given(&c.Stock, f.Stock)
	given(&c.Buyers, f.Buyers)
	given(&c.Rate, f.Rate)
	given(&c.Duration, f.Duration)
	given(&c.Shape, f.Shape)
	given(&c.Timeout, f.Timeout)
	given(&c.Seed, f.Seed)
	given(&c.PerBuyerLimit, f.Limit)
	given(&c.MaxQuantity, f.MaxQuantity)
	given(&c.Replays, f.Replays)
	given(&c.SecondOrders, f.SecondOrders)
	given(&c.Cancels, f.Cancels)
	if f.ReserveOn != nil && *f.ReserveOn == loadtest.OnPayment {
		c = c.ForPayment()
	}
	given(&c.Payments, f.Payments)
	given(&c.PaymentWindow, f.PaymentWindow)
	if !f.Quiet {
		c.Progress = s.err
	}
	if f.Against != "" { // before the attack: it would be a pity afterwards
		earlier, err = loadtest.ReadRun(f.Against)
	}
	return c, earlier, err
}

// besides names the flags that say what a scenario says for each of its sales
// and phases.
func (f *attackFlags) besides() error {
	var both []string
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--stock", f.Stock != nil}, {"--limit", f.Limit != nil}, {"--rate", f.Rate != nil},
		{"--duration", f.Duration != nil}, {"--shape", f.Shape != nil},
	} {
		if flag.given {
			both = append(both, flag.name)
		}
	}
	if len(both) == 0 {
		return nil
	}
	return fmt.Errorf("%s: a scenario says that for each of its sales and phases (leave it out, or --scenario)", strings.Join(both, ", "))
}

func given[T any](to *T, flag *T) {
	if flag != nil {
		*to = *flag
	}
}

// finish prints and saves the verdict, and turns it into the exit status.
func (f *attackFlags) finish(s streams, r *loadtest.Reports, earlier *loadtest.Earlier) error {
	write, beside := r.WriteText, s.out
	if f.JSON {
		write, beside = r.WriteJSON, s.err
	}
	err := write(s.out)
	if earlier != nil {
		_, _ = fmt.Fprintln(beside)
		err = errors.Join(err, r.WriteAgainst(beside, earlier))
	}
	if f.Save != "" {
		err = errors.Join(err, r.SaveRun(f.Save))
	}
	if f.Report != "" {
		err = errors.Join(err, r.Save(f.Report))
		_, _ = fmt.Fprintln(s.err, "report written to", f.Report)
	}
	if err != nil {
		return err
	}
	if code := r.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}
