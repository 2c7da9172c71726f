package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tsenart/vegeta/v12/lib/plot"
)

// run is one load test under way.
type run struct {
	c        Config
	patience patience
	client   client
	operator operator
	crowd    *crowd
	ledger   ledger
	plot     *plot.Plot
	progress progress
	began    time.Time

	drifting time.Time // since when the audit has found drift, zero if it does not
	restores []time.Duration
	soldOut  bool     // the last top-up went on until sold_out
	notes    []string // what a reader should know besides the verdict
	gaps     []Gap    // what could not be found out
}

// Run opens the sale, attacks it, waits until it is at rest and judges what
// happened. It returns an error if it could not start: a bad Config, a sale
// that cannot be opened, ErrSKUInUse. Whatever happens later is in the report,
// and in its ExitCode.
//
// If ctx ends during the attack, the attack stops and what has happened is
// still judged, in seconds, or in two minutes at worst; the same goes for the
// phases after it.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.SKU == "" {
		c.SKU = "load-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	conns := transport(payers + toppers)
	defer conns.CloseIdleConnections()
	r := &run{c: c, patience: c.withPatience(), plot: newPlot(), progress: progress{w: c.Progress}, began: time.Now()}
	r.client = client{
		base: strings.TrimSuffix(c.Target, "/"), sku: c.SKU,
		http: &http.Client{Transport: conns, Timeout: c.Timeout, CheckRedirect: noRedirects},
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.attack(ctx); err != nil {
		return nil, err
	}
	e := r.aftermath(ctx)
	return r.report(e, ctx.Err() != nil), nil
}

// open signs the tokens and opens the sale.
func (r *run) open(ctx context.Context) (err error) {
	r.progress.start("signing tokens, opening the sale", 0)
	defer r.progress.end()
	admin, err := r.c.Token("loadtest-operator", true)
	if err != nil {
		return fmt.Errorf("loadtest: sign the operator's token: %w", err)
	}
	if r.crowd, err = newCrowd(min(r.c.Buyers, r.c.requests()), r.c.Token); err != nil {
		return err
	}
	r.operator = operator{client: r.client, as: buyer{subject: "loadtest-operator", token: admin}}
	if err := r.operator.open(ctx, r.c); err != nil {
		return fmt.Errorf("open the sale: %w", err)
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
