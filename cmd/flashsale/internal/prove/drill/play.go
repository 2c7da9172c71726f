package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

// act carries one act out. An error means that something could not be started
// or mended; what was broken until then is in the Act.
func (s *storm) act(ctx context.Context, seed int64, length time.Duration) (Act, error) {
	s.acts++
	a := &act{storm: s, number: s.acts, whole: ctx, opened: time.Now().Add(-time.Hour), alike: map[string]int{}, promised: map[intent]bool{}}
	result := Act{Seed: seed, Seconds: length.Seconds()}
	for i, letter := range []string{"a", "b", "c"} {
		a.skus[i] = fmt.Sprintf("storm-%d-%s", s.acts, letter)
		a.lives[i] = &life{sku: a.skus[i]}
	}
	a.operator = &operator{act: a, left: map[string]bool{}}
	if err := a.open(ctx); err != nil {
		return result, fmt.Errorf("open the sales: %w", err)
	}

	storming, stop := context.WithTimeout(ctx, length)
	defer stop()
	a.stop, a.began = stop, time.Now()
	context.AfterFunc(storming, a.condition.rest)
	watching, enough := context.WithCancel(ctx)
	var watch, storm sync.WaitGroup
	defer watch.Wait()
	defer enough()
	watch.Go(func() { a.watch(watching) })
	for i := range buyerCount {
		storm.Go(func() { (&buyer{act: a, number: i, random: lab.Numbers(seed, uint64(10+i))}).buy(storming) })
	}
	for i := range nodeCount * replayers {
		storm.Go(func() { a.replay(storming, i%nodeCount, i/nodeCount, lab.Numbers(seed, uint64(100+i))) })
	}
	for i := range skuCount {
		storm.Go(func() { a.operator.operate(storming, a.skus[i], lab.Numbers(seed, uint64(1+i))) })
		storm.Go(func() { a.probe(storming, i) })
	}
	err := a.nemesis(storming, newPlan(seed, a.cfg.Faults))
	if err == nil {
		err = a.condition.left()
	}
	stop()
	storm.Wait()
	a.more.Wait()
	var rows []row
	if err == nil && ctx.Err() == nil {
		err = a.settle(ctx)
	}
	if ctx.Err() == nil {
		var readErr error
		rows, readErr = a.rows(ctx)
		err = errors.Join(err, readErr)
	}
	enough()
	watch.Wait()
	if err == nil && ctx.Err() == nil {
		for _, line := range compare(a.book, rows, a.condition.pauses) {
			a.broke(line)
		}
		a.close(ctx)
		if a.unread*2 > a.reads || len(rows) == 0 {
			err = fmt.Errorf("not judged: %d of %d reads of the database failed, and there are %d orders", a.unread, a.reads, len(rows))
		}
	}
	a.report(&result, rows)
	return result, err
}

// open puts the sales on sale and waits until every node knows them.
func (a *act) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
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
				if c.yes() || c.code == "buyer_limit" {
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("%s does not sell %s: %s", a.Nodes[i].Name, sku, c)
				}
				sleep(ctx, 50*time.Millisecond)
			}
		}
	}
	return nil
}

// close ends the sales: the next act has others.
func (a *act) close(ctx context.Context) {
	seen := a.seen.Load()
	if seen == nil {
		return
	}
	for i, sku := range a.skus {
		// Where it fails they stay open and idle, which harms nobody.
		_ = a.put(ctx, i%nodeCount, sku, seen.sales[sku].total, time.Now())
	}
}

// watchedShare is the share of an act in which the sales must be watched. It is above
// one half because an act may end within a fault.
const watchedShare = 0.55

// nemesis carries out the plan until ctx ends. After each fault it waits until the sales
// have been watched for long enough, because a new fault gives them time to recover.
func (a *act) nemesis(ctx context.Context, p *plan) error {
	for ctx.Err() == nil {
		next := p.next()
		if err := a.carryOut(ctx, next); err != nil {
			return err
		}
		for sleep(ctx, next.calm); a.watched() < watchedShare && ctx.Err() == nil; {
			sleep(ctx, watchEvery)
		}
	}
	return nil
}

// carryOut does one step, and the second fault beside it.
func (a *act) carryOut(ctx context.Context, next step) error {
	var joined sync.WaitGroup
	var second error
	if next.with != nil {
		joined.Go(func() { second = a.harm(ctx, *next.with) })
	}
	err := a.harm(ctx, next)
	joined.Wait()
	if err == nil {
		err = second
	}
	return err
}

func (a *act) harm(ctx context.Context, p step) error {
	a.faults.Add(1)
	n := &nemesis{act: a, ctx: ctx}
	if err := p.fault.do(n, p); err != nil {
		return fmt.Errorf("%s: %w", p.fault.name, err)
	}
	return nil
}

// report fills in what came of the act.
func (a *act) report(r *Act, rows []row) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Done, r.Broken = slices.Clone(a.events), slices.Clone(a.breaks)
	for _, kind := range slices.Sorted(maps.Keys(a.alike)) {
		if n := a.alike[kind] - maxAlike; n > 0 {
			r.Broken = append(r.Broken, fmt.Sprintf("        %s: %d more", kind, n))
		}
	}
	r.Faults, r.Orders, r.Reads = int(a.faults.Load()), len(rows), a.reads-a.unread
	r.Direct, r.Watched = a.direct.Load(), a.watched()
	for _, l := range a.lives {
		r.LongestGap = max(r.LongestGap, l.gap.Seconds())
	}
	for _, c := range a.book {
		r.Calls++
		switch {
		case c.yes():
			r.Yes++
		case c.no():
			r.No++
		}
	}
}
