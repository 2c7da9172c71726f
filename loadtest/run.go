package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// run is one sale under load test.
type run struct {
	c        Config // of this sale alone
	patience patience
	client   client.Client
	operator client.Operator
	crowd    *crowd
	ledger   ledger
	stock    stockLine
	progress *progress
	began    time.Time

	drifting time.Time // since when the audit shows drift; zero: it does not
	restores []time.Duration
	late     []time.Duration // of each order of the attack: how long after it was due it was sent
	soldOut  bool            // the last top-up went on until sold_out
	notes    []string        // what a reader should know besides the verdict
	gaps     []judge.Gap     // what could not be judged
}

// Run is RunAll for a Config of one sale.
func Run(ctx context.Context, c Config) (*report.Report, error) {
	if len(c.Sales) > 1 {
		return nil, fmt.Errorf("loadtest: Sales: %d of them, and one report", len(c.Sales))
	}
	all, err := RunAll(ctx, c)
	if err != nil {
		return nil, err
	}
	return all.Sales[0], nil
}

// RunAll opens the sales, attacks them together, waits until each is at rest and
// judges it. It returns an error if it could not start: a bad Config, a sale that
// cannot be opened, client.ErrSKUInUse. Whatever happens later is in the reports
// and in their ExitCode.
//
// If ctx ends, the attack or the phase after it stops, and RunAll judges what has
// happened until then. That takes seconds, or two minutes per sale at worst.
func RunAll(ctx context.Context, c Config) (*report.Reports, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.whole()
	crowd := newCrowd(c.Token)
	progress := &progress{w: c.Progress}
	// With InFlight, there is a connection for each concurrent call.
	attacking := client.NewHTTP(cmp.Or(c.InFlight, attackConns), c.Timeout)
	defer attacking.CloseIdleConnections()
	var runs []*run
	for _, sale := range c.sales() {
		if sale.SKU == "" {
			sale.SKU = newSKU("load")
		}
		conns := attacking
		if c.InFlight == 0 {
			conns = client.NewHTTP(payers+toppers, c.Timeout)
			defer conns.CloseIdleConnections()
		}
		of := c.of(sale)
		runs = append(runs, &run{
			c: of, patience: of.withPatience(), crowd: crowd, progress: progress, began: time.Now(),
			client: client.New(c.Target, sale.SKU, conns),
		})
	}
	if err := openAll(ctx, c, crowd, runs); err != nil {
		return nil, err
	}
	if err := attack(ctx, c, crowd, attacking, runs); err != nil {
		return nil, err
	}
	all := &report.Reports{Config: c.reportConfig(), Started: runs[0].began}
	for _, r := range runs {
		if len(runs) > 1 {
			progress.say("%s:", r.c.SKU)
		}
		evidence := r.aftermath(ctx)
		all.Sales = append(all.Sales, report.New(r.c.reportConfig(), evidence, report.Seen{
			Started: r.began, Took: time.Since(r.began), Interrupted: ctx.Err() != nil,
			Stock: r.stock.read(), Restores: r.restores, Late: r.late, Notes: r.notes,
		}))
	}
	all.Took = time.Since(all.Started)
	return all, nil
}

// openAll signs the tokens and opens the sales.
func openAll(ctx context.Context, c Config, crowd *crowd, runs []*run) error {
	progress := runs[0].progress
	progress.start("signing tokens, opening the sale", 0)
	defer progress.end()
	admin, err := c.Token("loadtest-operator", true)
	if err != nil {
		return fmt.Errorf("loadtest: sign the operator's token: %w", err)
	}
	// As many as the attack sends in three seconds: a burst would let fewer pass.
	if runs[0].client.OneAddress(ctx, min(3*c.Rate, 300)) {
		return fmt.Errorf("%s takes all buyers for one address, and limits it: start the server with --limit-ip off, "+
			"or with --trusted-proxies and the address of this machine as the server sees it, such as 127.0.0.1", c.Target)
	}
	if err := crowd.sign(min(c.Buyers, c.requests())); err != nil {
		return err
	}
	for _, r := range runs {
		r.operator = client.NewOperator(r.client, admin)
		if err := r.operator.Open(ctx, r.c.saleTerms()); err != nil {
			return fmt.Errorf("open the sale: %w", err)
		}
	}
	return nil
}

// aftermath collects the evidence after the attack. When ctx ends, no fresh
// buyers come any more, but the state of the sale is still read.
func (r *run) aftermath(ctx context.Context) judge.Evidence {
	judging := context.WithoutCancel(ctx)
	r.resolve(judging, false)
	audit, moving := r.settle(judging)
	r.resolve(judging, true)
	r.resolvePayments(judging)

	if ctx.Err() == nil && moving == nil {
		audit, moving = r.sellOut(ctx)
	}
	if ctx.Err() != nil {
		r.gaps = append(r.gaps, judge.Gap{Checks: []string{judge.Undersold}, Why: "interrupted before fresh buyers had bought what was left", Do: "let the run end by itself"})
		r.soldOut = false
	}
	r.resolve(judging, false) // fresh buyers may have got no answers, too
	if ctx.Err() != nil {
		audit, moving = r.settle(judging)
	}

	e := judge.Evidence{
		SKU: r.c.SKU, Total: r.c.Stock, PerBuyerLimit: r.c.PerBuyerLimit, ReserveOn: r.c.ReserveOn, Search: r.c.Search, Visitors: r.c.Visitors,
		Requests: r.ledger.requests.read(), Closings: r.ledger.closings.read(), Audit: audit, SoldOut: r.soldOut,
	}
	switch settled, rows, err := r.collect(judging); {
	case err == nil:
		e.Audit, e.Rows = settled, rows
	case errors.Is(err, errUnsettled):
		e.Audit, e.Rows, moving = settled, rows, err
	default:
		e.Unread = err.Error()
	}
	if errors.Is(moving, errUnsettled) {
		e.Unsettled = moving.Error()
	}
	e.Gaps = r.gaps
	return e
}

// sellOut tops up, probes and tops up again until the sale is sold out and at
// rest. Where orders may expire, it goes on until none is left that can: a unit
// that came back a moment ago is not stranded. For the same reason a gate that has
// units is asked again.
func (r *run) sellOut(ctx context.Context) (audit judge.Audit, moving error) {
	probed, retries := false, 5
	for deadline := time.Now().Add(r.c.PaymentWindow + r.patience.overdue); ; {
		err := r.topUp(ctx)
		r.soldOut = err == nil
		if err != nil && ctx.Err() == nil {
			r.gaps = append(r.gaps, judge.Gap{Checks: []string{judge.Undersold}, Why: err.Error(), Do: "find out why the server does not serve fresh buyers, and run again"})
		}
		if audit, moving = r.settle(context.WithoutCancel(ctx)); err != nil || moving != nil {
			return audit, moving
		}
		if !probed {
			probed = true
			if err := r.probe(ctx); err != nil && ctx.Err() == nil {
				r.notes = append(r.notes, err.Error())
			}
			continue // the probes may have left units
		}
		if audit.Available > 0 && retries > 0 {
			retries--
			continue
		}
		atRest := audit.Available <= 0 && audit.Pending == 0
		if !r.c.expiring() || atRest || time.Now().After(deadline) || client.Wait(ctx, r.patience.rest) != nil {
			return audit, moving
		}
	}
}
