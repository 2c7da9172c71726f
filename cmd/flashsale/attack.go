package main

import (
	"errors"
	"fmt"
	"time"

	"flashsale/loadtest"
)

// attackFlags are those of demo and loadtest.
type attackFlags struct {
	Stock    int           `default:"1000" placeholder:"UNITS" help:"Units on sale. Default ${default}."`
	Buyers   int           `default:"20000" help:"Distinct buyers. Default ${default}."`
	Rate     int           `default:"2000" placeholder:"PER-SECOND" help:"Requests per second, whether or not answers return. Default ${default}."`
	Duration time.Duration `default:"10s" help:"Of the attack. Default ${default}."`
	Shape    string        `default:"constant" enum:"constant,ramp,burst" help:"constant, ramp (from a tenth of the rate up) or burst (a second's worth at once). Default ${default}."`

	ReserveOn string `default:"order" enum:"order,payment" help:"When units are taken. payment: an order promises none, and all fight for them when they pay. Default ${default}."`

	Limit         int           `default:"2" placeholder:"UNITS" help:"Units one buyer may hold. Default ${default}." group:"Buyers"`
	MaxQuantity   int           `default:"2" placeholder:"UNITS" help:"Each order asks for 1 to this many. Default ${default}." group:"Buyers"`
	Replays       float64       `default:"0.1" placeholder:"SHARE" help:"Share of requests that repeat an idempotency key. Default ${default}." group:"Buyers"`
	SecondOrders  float64       `default:"0.1" placeholder:"SHARE" help:"Share of requests by buyers who hold units, to go beyond the limit. Default ${default}." group:"Buyers"`
	Cancels       float64       `default:"0.1" placeholder:"SHARE" help:"Share of accepted orders that are cancelled. Default ${default}." group:"Buyers"`
	Payments      *float64      `placeholder:"SHARE" help:"Share of accepted orders that are paid. Default 0.3; with --reserve-on payment nine in ten of those that are not cancelled." group:"Buyers"`
	PaymentWindow time.Duration `default:"15m" help:"Time to pay, before an order expires. Default ${default}." group:"Buyers"`
	Seed          int64         `default:"1" help:"Fixes quantities and fates, not how requests interleave. Default ${default}." group:"Buyers"`
	Timeout       time.Duration `default:"5s" help:"Of one request; after it the outcome is asked for under the same key. Default ${default}." group:"Buyers"`

	Report string `placeholder:"DIR" help:"Write report.html and report.json there." group:"Result"`
	JSON   bool   `name:"json" help:"Print the verdict as one JSON object on stdout; all else goes to stderr." group:"Result"`
	Quiet  bool   `help:"No progress." group:"Result"`
}

func (f attackFlags) config(s streams) loadtest.Config {
	c := loadtest.Defaults()
	c.Stock, c.Buyers, c.Rate, c.Duration, c.Shape = f.Stock, f.Buyers, f.Rate, f.Duration, f.Shape
	c.PerBuyerLimit, c.MaxQuantity = f.Limit, f.MaxQuantity
	c.Replays, c.SecondOrders, c.Cancels = f.Replays, f.SecondOrders, f.Cancels
	if f.ReserveOn == loadtest.OnPayment {
		c = c.ForPayment()
	}
	if f.Payments != nil {
		c.Payments = *f.Payments
	}
	c.PaymentWindow, c.Seed, c.Timeout = f.PaymentWindow, f.Seed, f.Timeout
	if !f.Quiet {
		c.Progress = s.err
	}
	return c
}

// finish prints and saves the verdict, and turns it into the exit status.
func (f attackFlags) finish(s streams, r *loadtest.Report) error {
	write := r.WriteText
	if f.JSON {
		write = r.WriteJSON
	}
	err := write(s.out)
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
