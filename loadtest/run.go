package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// run is the state of one sale during a load test.
type run struct {
	c        Config // config of this sale, without what the shop lacks
	patience patience
	client   client.Client
	operator client.Operator
	crowd    *crowd
	ledger   ledger
	stock    stockLine
	feed     *feed
	progress *progress
	began    time.Time

	reachable context.Context // ends if the server is gone; its cause is the reason

	drifting time.Time // start of the drift; zero if there is none
	releases []time.Duration
	late     []time.Duration // delay of each order of the attack: sent minus due
	soldOut  bool            // the last top-up ended with sold_out
	notes    []string        // notes for the reader of the report
	gaps     []judge.Gap     // checks that could not be made
}

// Run is like RunAll for a single sale. It returns an error if c has several.
func Run(ctx context.Context, c Config) (*report.Report, error) {
	if len(c.Sales) > 1 {
		return nil, fmt.Errorf("loadtest: got %d sales, want one (RunAll takes several)", len(c.Sales))
	}
	all, err := RunAll(ctx, c)
	if err != nil {
		return nil, err
	}
	return all.Sales[0], nil
}

// RunAll opens the sales, attacks them together, waits until each is at rest and judges
// it. It returns an error if the attack cannot start: c is invalid, a sale cannot be
// opened, or a SKU is in use (client.ErrSKUInUse). Later failures are in the reports
// and in their ExitCode.
//
// If ctx ends, the current step stops and RunAll judges what has happened so far.
// That takes seconds, and at most two minutes per sale. If the server refuses every
// connection for 15 s, the run ends, and the report contains what was answered before.
// RunAll closes the sales at the end.
func RunAll(ctx context.Context, c Config) (*report.Reports, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.whole()
	crowd := newCrowd(c.Token)
	progress := &progress{w: c.Progress}
	operator, err := c.Token("loadtest-operator", true)
	if err != nil {
		return nil, fmt.Errorf("loadtest: sign the operator's token: %w", err)
	}
	reachable, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(reachable, stop)
	refused := &refusals{after: c.withPatience().refused, stop: giveUp}
	var notes []string
	if via := proxyOf(c.Target); via != "" {
		notes = append(notes, "all requests go through the proxy "+via+" of the environment")
		progress.printf("%s", notes[0])
	}
	reading := refused.watch(client.NewHTTP(1, c.Timeout+feedWait))
	defer reading.CloseIdleConnections()
	asking := client.NewOperator(client.New(c.Target, "", reading), operator)
	if c, err = c.about(ctx, &asking); err != nil {
		return nil, err
	}
	refused.once = c.lacks(judge.Keys)
	c.keys = newSKU("key") + "-"
	// With InFlight, each concurrent call has its own connection.
	attacking := refused.watch(client.NewHTTP(cmp.Or(c.InFlight, attackConns), c.Timeout))
	defer attacking.CloseIdleConnections()
	changes := &feed{none: c.lacks(judge.ChangeFeed), wait: feedWait, operator: asking}
	if c.InFlight == 1 { // the feed is read between two orders
		changes.wait, changes.operator = 0, client.NewOperator(client.New(c.Target, "", attacking), operator)
	}
	var runs []*run
	for _, sale := range c.sales() {
		if sale.SKU == "" {
			sale.SKU = newSKU("load")
		}
		conns := attacking
		if c.InFlight == 0 {
			conns = refused.watch(client.NewHTTP(payers+toppers, c.Timeout))
			defer conns.CloseIdleConnections()
		}
		conf := c.forSale(sale)
		runs = append(runs, &run{
			c: conf, patience: conf.withPatience(), crowd: crowd, progress: progress, began: time.Now(),
			client: client.New(c.Target, sale.SKU, conns), feed: changes, reachable: reachable, notes: slices.Clone(notes),
		})
	}
	if err := openAll(ctx, c, crowd, runs, operator); err != nil {
		return nil, err
	}
	if err := attack(ctx, c, crowd, attacking, runs); err != nil {
		return nil, err
	}
	all := &report.Reports{Config: c.reportConfig(), Started: runs[0].began}
	for _, r := range runs {
		if len(runs) > 1 {
			progress.printf("%s:", r.c.SKU)
		}
		evidence := r.aftermath(ctx)
		r.end()
		all.Sales = append(all.Sales, report.New(r.c.reportConfig(), evidence, report.Observations{
			Started: r.began, Took: time.Since(r.began), Interrupted: ctx.Err() != nil,
			ReleaseTimes: r.releases, SendDelays: r.late, Notes: r.notes,
		}))
	}
	all.Took = time.Since(all.Started)
	return all, nil
}

// proxyOf returns the proxy of the environment for requests to target, or "".
func proxyOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	via, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil || via == nil {
		return ""
	}
	return via.Redacted()
}

// end closes the sale, so that nothing more is sold of it. A shop may lack the call.
func (r *run) end() {
	err := r.operator.End(r.reachable)
	if status := client.StatusOf(err); err != nil && status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		r.notes = append(r.notes, fmt.Sprintf("sale %s could not be closed and is still open: %v", r.c.SKU, err))
	}
}

// openAll signs the tokens and opens the sales.
func openAll(ctx context.Context, c Config, crowd *crowd, runs []*run, operator string) error {
	progress := runs[0].progress
	progress.start("signing tokens, opening the sale", 0)
	defer progress.end()
	// Send the number of calls that the attack sends in three seconds, because a
	// limiter may allow short bursts.
	if runs[0].client.OneAddress(ctx, min(3*c.Rate, 300)) {
		return fmt.Errorf("%s limits all buyers as one address: start the server with --limit-ip off, "+
			"or with --trusted-proxies and the address of this machine as the server sees it, such as 127.0.0.1", c.Target)
	}
	if err := crowd.sign(min(c.Buyers, c.requests())); err != nil {
		return err
	}
	for _, r := range runs {
		r.operator = client.NewOperator(r.client, operator)
		if err := r.operator.Open(ctx, r.c.saleTerms(), cmp.Or(c.Patience, 30*time.Second)); err != nil {
			return fmt.Errorf("open the sale: %w", err)
		}
		r.feed.SKUs = append(r.feed.SKUs, r.c.SKU)
	}
	return nil
}

// aftermath collects the evidence after the attack. If ctx ends, it sends no more fresh
// buyers, but it still reads the state of the sale.
func (r *run) aftermath(ctx context.Context) judge.Evidence {
	judging := r.reachable
	r.resolve(judging, false)
	audit, moving := r.settle(judging)
	r.resolve(judging, true)
	r.resolvePayments(judging)

	if ctx.Err() == nil && moving == nil {
		audit, moving = r.sellOut(ctx)
	}
	if ctx.Err() != nil {
		r.gaps = append(r.gaps, judge.Gap{Checks: []string{judge.Undersold}, Why: "interrupted before fresh buyers had bought the units that were left", Do: "let the run end by itself"})
		r.soldOut = false
	}
	r.resolve(judging, false) // calls of fresh buyers may have got no answer
	if ctx.Err() != nil {
		audit, moving = r.settle(judging)
	}

	e := judge.Evidence{
		SKU: r.c.SKU, Total: r.c.Stock, UnitsPerBuyer: r.c.UnitsPerBuyer, ReserveOn: r.c.ReserveOn, Search: r.c.Search, Visitors: r.c.Visitors,
		Timeout: r.c.Timeout, Lacks: r.c.Lacks, Requests: r.ledger.requests.read(), Closings: r.ledger.closings.read(), Audit: audit, SoldOut: r.soldOut,
	}
	switch settled, rows, err := r.collect(judging); {
	case err == nil:
		e.Audit, e.Rows = settled, rows
	case errors.Is(err, errUnsettled):
		e.Audit, e.Rows, moving = settled, rows, err
	case judging.Err() != nil:
		e.Unread = context.Cause(judging).Error()
	default:
		e.Unread = err.Error()
	}
	if errors.Is(moving, errUnsettled) {
		e.Unsettled = moving.Error()
	}
	if !r.feed.none {
		e.Feed = new(r.feed.Feed)
	}
	e.Gaps = r.gaps
	return e
}

// sellOut tops up, probes and tops up again until the sale is sold out and at rest. If
// orders may expire, it repeats this until no order is pending. If the gate still has
// units, it tries again, because units that were released a moment ago are not
// stranded.
func (r *run) sellOut(ctx context.Context) (audit judge.Audit, moving error) {
	probed, retries := false, 5
	for deadline := time.Now().Add(r.c.PaymentWindow + r.patience.overdue); ; {
		err := r.topUp(ctx)
		r.soldOut = err == nil
		if err != nil && ctx.Err() == nil {
			r.gaps = append(r.gaps, judge.Gap{Checks: []string{judge.Undersold}, Why: err.Error(), Do: "find out why the server does not serve fresh buyers, and run again"})
		}
		if audit, moving = r.settle(r.reachable); err != nil || moving != nil {
			return audit, moving
		}
		if !probed {
			probed = true
			if err := r.probe(ctx); err != nil && ctx.Err() == nil {
				r.notes = append(r.notes, err.Error())
			}
			continue // the probes may leave units
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
