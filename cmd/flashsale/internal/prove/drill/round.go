package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// A round runs faults and buyers over three new sales until its time is over or a
// promise is broken. It then settles, and the judge gives the verdict.
type round struct {
	*storm
	*notes
	number    int // number of the round in this storm
	opened    time.Time
	skus      [skuCount]string
	state     brokenState
	liveness  [skuCount]*liveness
	operator  *operator
	consumer  *consumer
	seen      atomic.Pointer[snapshot]
	direct    atomic.Bool // a sale was sold in direct mode
	onPayment atomic.Bool // the last sale takes units when an order is paid
	faults    atomic.Int64
	runCtx    context.Context // outlives the storm's context, so that calls in flight can finish when the storm ends
	pending   sync.WaitGroup  // delayed calls of buyers

	reads, failedReads int // counts of the watch; read after the watch has ended

	bookMu   sync.Mutex
	book     []*call // calls of the buyers
	promises []call  // the first accepted call of each intent
	promised map[intent]bool
}

// endBuying ends the checks of liveness, because no buyer is active any more.
func (c *brokenState) endBuying() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buyersStopped = true
}

// later runs do in the background. The round waits for it at its end.
func (a *round) later(do func()) { a.pending.Go(do) }

// round runs one round. It returns an error if something could not be started or ended.
// The row contains the promises broken until then.
func (s *storm) round(ctx context.Context, seed int64, length time.Duration) (row Row, err error) {
	s.rounds++
	a := &round{storm: s, number: s.rounds, runCtx: ctx, opened: time.Now().Add(-time.Hour), promised: map[intent]bool{}}
	row = Row{Name: Storm, Done: []string{}, Violations: []string{}, Storm: &StormFigures{Seed: seed, Seconds: length.Seconds()}}
	for i, letter := range []string{"a", "b", "c"} {
		a.skus[i] = fmt.Sprintf("storm-%d-%s", s.rounds, letter)
		a.liveness[i] = &liveness{sku: a.skus[i]}
	}
	a.operator = &operator{round: a, lent: map[string]bool{}}
	a.consumer = &consumer{a, client.Consumer{SKUs: a.skus[:]}}
	if err := a.open(ctx); err != nil {
		return row, fmt.Errorf("open the sales: %w", err)
	}

	storming, stop := context.WithTimeout(ctx, length)
	defer stop()
	began := time.Now()
	a.notes = &notes{say: s.Progressf, at: func() time.Duration { return time.Since(began) }, stop: stop}
	context.AfterFunc(storming, a.state.endBuying)
	watching, enough := context.WithCancel(ctx)
	var watch, storm sync.WaitGroup
	defer watch.Wait()
	defer enough()
	watch.Go(func() { a.watch(watching) })
	for i := range buyerCount {
		storm.Go(func() { (&buyer{round: a, number: i, random: lab.NewRand(seed, uint64(10+i))}).buy(storming) })
	}
	for i := range nodeCount * replayers {
		storm.Go(func() { a.replay(storming, i%nodeCount, i/nodeCount, lab.NewRand(seed, uint64(100+i))) })
	}
	for i := range skuCount {
		storm.Go(func() { a.operator.operate(storming, a.skus[i], lab.NewRand(seed, uint64(1+i))) })
		storm.Go(func() { a.probe(storming, i) })
	}
	storm.Go(func() { a.consumer.consume(storming, lab.NewRand(seed, 200)) })
	if err = a.strike(storming, newPlan(seed, a.cfg.Faults)); err == nil {
		err = a.state.unrepaired()
	}
	stop()
	storm.Wait()
	a.pending.Wait()
	var rows []judge.Row
	if err == nil && ctx.Err() == nil {
		err = a.settle(ctx)
	}
	if ctx.Err() == nil {
		var readErr error
		if rows, readErr = a.rows(ctx); err == nil {
			rows, readErr = a.consumer.complete(ctx)
		}
		err = errors.Join(err, readErr)
	}
	enough()
	watch.Wait()
	if err == nil && ctx.Err() == nil {
		for _, e := range a.evidence(rows) {
			for _, v := range judge.Judge(e).Violations {
				a.broke("%s: %s: %s", v.Name, e.SKU, v.Detail)
			}
		}
		a.close(ctx)
		if a.failedReads*2 > a.reads || len(rows) == 0 {
			err = fmt.Errorf("the round is not judged: %d of %d reads of the database failed, and %d orders were read", a.failedReads, a.reads, len(rows))
		}
	}
	if a.cfg.Keep && len(a.broken) > 0 && ctx.Err() == nil {
		text, _ := json.MarshalIndent(a.evidence(rows), "", " ") // evidence always marshals
		var keepErr error
		row.Logs, keepErr = a.KeepLogs(Storm, map[string][]byte{"evidence.json": text})
		err = errors.Join(err, keepErr)
	}
	a.report(&row, len(rows))
	return row, err
}

// evidence returns, for each sale, the buyers' calls with their answers, and the rows.
func (a *round) evidence(rows []judge.Row) (all []judge.Evidence) {
	for _, sku := range a.skus {
		e := judge.Evidence{SKU: sku, UnitsPerBuyer: buyerLimit, Changing: true, MaxEffectDelay: deadline, Pauses: a.state.pauses, Feed: &a.consumer.Feed}
		for _, c := range a.book {
			switch {
			case c.sku != sku:
			case c.orders():
				e.Requests = append(e.Requests, c.request())
			default:
				e.Closings = append(e.Closings, c.closing())
			}
		}
		for _, row := range rows {
			if row.SKU == sku {
				e.Rows = append(e.Rows, row)
			}
		}
		all = append(all, e)
	}
	return all
}

// open opens the sales and waits until every node sells them.
func (a *round) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	for i, sku := range a.skus {
		for a.put(ctx, 0, sku, int64(10+10*i), a.opened.Add(24*time.Hour)) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			sleep(ctx, 50*time.Millisecond)
		}
		for i := range a.Nodes {
			for {
				c := a.do(ctx, call{verb: place, node: i, buyer: "first", sku: sku, key: fmt.Sprint(keyMark, "first.", i), quantity: 1})
				if c.accepted() || c.Code == "buyer_limit" {
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("wait until %s sells %s: its last answer was %d %s", a.Nodes[i].Name, sku, c.Status, c.Code)
				}
				sleep(ctx, 50*time.Millisecond)
			}
		}
	}
	return nil
}

// close ends the sales, because the next round opens other sales.
func (a *round) close(ctx context.Context) {
	seen := a.seen.Load()
	if seen == nil {
		return
	}
	for i, sku := range a.skus {
		// If this fails, the sale stays open without buyers, which is harmless.
		_ = a.put(ctx, i%nodeCount, sku, seen.sales[sku].total, time.Now())
	}
}

// watchedShare is the share of a round in which liveness must be checked. It is above one
// half because a round may end during a fault.
const watchedShare = 0.55

// strike carries out the plan until ctx ends. After each fault it waits until enough of
// the time was watched, because liveness is not checked shortly after a fault.
func (a *round) strike(ctx context.Context, p *plan) error {
	for ctx.Err() == nil {
		next := p.next()
		var joined sync.WaitGroup
		var second error
		if next.with != nil {
			joined.Go(func() { second = a.inject(ctx, *next.with) })
		}
		err := a.inject(ctx, next)
		joined.Wait()
		if err = errors.Join(err, second); err != nil {
			return err
		}
		for sleep(ctx, next.calm); a.watched() < watchedShare && ctx.Err() == nil; {
			sleep(ctx, watchEvery)
		}
	}
	return nil
}

func (a *round) inject(ctx context.Context, p step) error {
	a.faults.Add(1)
	in := &injector{stage: a.stage, notes: a.notes, ctx: ctx, state: &a.state, skus: a.skus, operator: a.operator}
	if err := p.fault.do(in, p); err != nil {
		return fmt.Errorf("inject fault %s: %w", p.fault.name, err)
	}
	return nil
}

// report fills in the figures of the round.
func (a *round) report(r *Row, orders int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Changes = len(a.consumer.Changes)
	r.Orders, r.Done = orders, append(r.Done, a.done...)
	for _, l := range a.liveness {
		r.LongestGapMS = max(r.LongestGapMS, report.Milliseconds(l.gap))
	}
	f := r.Storm
	f.Faults, f.Reads, f.Direct, f.Watched = int(a.faults.Load()), a.reads-a.failedReads, a.direct.Load(), a.watched()
	for _, c := range a.book {
		r.Attempts++
		switch {
		case c.accepted():
			f.Accepted++
		case c.refused():
			f.Refused++
		case c.Status == 503:
			r.Unavailable++
		case c.Status == 0:
			r.NoAnswer++
		}
	}
	r.breaks(a.broken)
}
