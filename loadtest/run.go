package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// run is one sale under load test.
type run struct {
	c        Config // of this sale alone
	patience patience
	client   client
	operator operator
	crowd    *crowd
	ledger   ledger
	stock    stockLine
	progress *progress
	began    time.Time

	drifting time.Time // since when the audit has found drift, zero if it does not
	restores []time.Duration
	soldOut  bool     // the last top-up went on until sold_out
	notes    []string // what a reader should know besides the verdict
	gaps     []Gap    // what could not be found out
}

// Run is RunAll for a Config of one sale.
func Run(ctx context.Context, c Config) (*Report, error) {
	if len(c.Sales) > 1 {
		return nil, fmt.Errorf("loadtest: Sales: %d of them, and one report", len(c.Sales))
	}
	all, err := RunAll(ctx, c)
	if err != nil {
		return nil, err
	}
	return all.Sales[0], nil
}

// RunAll opens the sales, attacks them together, waits until each is at rest
// and judges what happened to it. It returns an error if it could not start: a
// bad Config, a sale that cannot be opened, ErrSKUInUse. Whatever happens later
// is in the reports, and in their ExitCode.
//
// If ctx ends during the attack, the attack stops and what has happened is
// still judged, in seconds, or in two minutes per sale at worst; the same goes
// for the phases after it.
func RunAll(ctx context.Context, c Config) (*Reports, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.whole()
	crowd := newCrowd(c.Token)
	progress := &progress{w: c.Progress}
	var runs []*run
	for _, sale := range c.sales() {
		if sale.SKU == "" {
			sale.SKU = newSKU("load")
		}
		conns := transport(payers + toppers)
		defer conns.CloseIdleConnections()
		runs = append(runs, newRun(c.of(sale), crowd, progress, conns))
	}
	if err := openAll(ctx, c, crowd, runs); err != nil {
		return nil, err
	}
	if err := attack(ctx, c, crowd, runs); err != nil {
		return nil, err
	}
	all := &Reports{Config: c, Started: runs[0].began}
	for _, r := range runs {
		if len(runs) > 1 {
			progress.say("%s:", r.c.SKU)
		}
		all.Sales = append(all.Sales, r.report(r.aftermath(ctx), ctx.Err() != nil))
	}
	all.Took = time.Since(all.Started)
	return all, nil
}

func newRun(c Config, crowd *crowd, progress *progress, conns *http.Transport) *run {
	r := &run{c: c, patience: c.withPatience(), crowd: crowd, progress: progress, began: time.Now()}
	r.client = client{
		base: strings.TrimSuffix(c.Target, "/"), sku: c.SKU,
		http: &http.Client{Transport: conns, Timeout: c.Timeout, CheckRedirect: noRedirects},
	}
	return r
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
	if err := crowd.sign(min(c.Buyers, c.requests())); err != nil {
		return err
	}
	for _, r := range runs {
		r.operator = operator{client: r.client, as: buyer{subject: "loadtest-operator", token: admin}}
		if err := r.operator.open(ctx, r.c); err != nil {
			return fmt.Errorf("open the sale: %w", err)
		}
	}
	return nil
}

// aftermath finds out what the attack left behind. The asking of fresh
// questions ends with ctx; reading what happened does not.
func (r *run) aftermath(ctx context.Context) Evidence {
	judging := context.WithoutCancel(ctx)
	r.resolve(judging, false)
	audit, moving := r.settle(judging)
	r.resolve(judging, true)
	r.resolvePayments(judging)

	if ctx.Err() == nil && moving == nil {
		audit, moving = r.sellOut(ctx)
	}
	if ctx.Err() != nil {
		r.gaps = append(r.gaps, Gap{[]string{Undersold}, "interrupted before fresh buyers had bought what was left"})
		r.soldOut = false
	}
	r.resolve(judging, false) // fresh buyers meet broken connections too
	if ctx.Err() != nil {
		audit, moving = r.settle(judging)
	}

	requests, closings := r.ledger.read()
	e := Evidence{
		SKU: r.c.SKU, Total: r.c.Stock, PerBuyerLimit: r.c.PerBuyerLimit, ReserveOn: r.c.ReserveOn, Search: r.c.Search,
		Requests: requests, Closings: closings, Audit: audit, SoldOut: r.soldOut,
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

// sellOut tops up, probes and tops up again until nothing is left and nothing
// moves. Where orders expire meanwhile it goes on until none can any more:
// a unit that came back a moment ago is not stranded, and only a sale without
// pending orders stays as it was while it is read.
func (r *run) sellOut(ctx context.Context) (audit Audit, moving error) {
	probed := false
	for deadline := time.Now().Add(r.c.PaymentWindow + r.patience.overdue); ; {
		err := r.topUp(ctx)
		r.soldOut = err == nil
		if err != nil && ctx.Err() == nil {
			r.gaps = append(r.gaps, Gap{[]string{Undersold}, err.Error()})
		}
		if audit, moving = r.settle(context.WithoutCancel(ctx)); err != nil || moving != nil {
			return audit, moving
		}
		if !probed {
			probed = true
			if err := r.probe(ctx); err != nil && ctx.Err() == nil {
				r.notes = append(r.notes, err.Error())
			}
			continue // whatever the probes left free is sold now
		}
		atRest := audit.Available <= 0 && audit.Pending == 0
		if !r.c.expiring() || atRest || time.Now().After(deadline) || wait(ctx, r.patience.rest) != nil {
			return audit, moving
		}
	}
}
