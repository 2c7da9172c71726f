package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
)

// A fault is one entry of the catalogue, for drills and for storms.
type fault struct {
	name    string
	happens string
	draws

	// do breaks something and mends it, also after the context has ended, which only
	// makes it hurry. An error means that nothing broke, or that it is not mended.
	do func(in *injector, p step) error

	// For a drill. A fault without these texts is drawn by storms alone.
	sees  string // the buyer
	never string // is true
	// aim completes the step: what to hit, and what to wait for. Nil: the step is complete.
	aim func(ctx context.Context, a *attack, p *step) error
	// keeper: the fault is in what a variant of the gallery has not: keepers, the
	// gate, direct mode, clocks.
	keeper  bool
	standby bool // MySQL has a replica
	group   bool // MySQL is the primary of a replication group
	clocks  bool // of the nodes differ
}

// draws say how a step is drawn. A fault without variants is for drills alone.
type draws struct {
	variants    int           // forms that it takes
	least, most time.Duration // that it lasts
	joins       bool          // may be a second fault at the same time as any other
}

// byName reports whether the drill runs only where it is asked for. A database that
// fails over takes long.
func (f *fault) byName() bool { return f.standby || f.group }

// A step is one fault: what, where, how and for how long.
type step struct {
	fault   *fault
	node    int           // index of the node that it hits, where it hits one
	sku     int           // index of the sale, where it hits one
	variant int           // which of the fault's forms
	last    time.Duration // from the fault until it is mended
	with    *step         // a second fault at the same time, or nil
	calm    time.Duration // after it

	until func(ctx context.Context) error // waits for the end in place of the time; nil: the time is enough
	after func(ctx context.Context) error // of a drill: waits once it is mended

	down time.Duration // of a drill: without a primary
}

func draw(random *rand.Rand, f *fault) step {
	return step{
		fault: f, node: random.IntN(nodeCount), sku: random.IntN(skuCount),
		variant: random.IntN(max(1, f.variants)), last: lab.Between(random, f.least, f.most),
	}
}

// An injector carries out steps, for a storm or for a drill.
type injector struct {
	*stage
	*notes
	ctx      context.Context // what is broken is mended after it, too
	state    *brokenState
	skus     [skuCount]string
	operator *operator // of a storm; nil in a drill
	attack   *attack   // of a drill; nil in a storm
}

// healing is for mending: it continues when the storm or the drill has ended, but not
// for ever.
func (in *injector) healing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(in.ctx), lab.Patience)
}

// begin notes what is done, and what it changes.
func (in *injector) begin(kind change, what func(c *brokenState), format string, args ...any) {
	in.did(format, args...)
	in.state.change(kind, what)
}

// lasts waits as long as the step lasts, and mends. Meanwhile lacks is true of the state;
// nil means that nothing is taken away.
func (in *injector) lasts(p step, kind change, lacks func(c *brokenState, by int), mend func(context.Context) error, format string, args ...any) error {
	if p.last > 0 {
		format, args = format+" for %.1fs", append(args, p.last.Seconds())
	}
	by := func(n int) func(*brokenState) {
		if lacks == nil {
			return nil
		}
		return func(c *brokenState) { lacks(c, n) }
	}
	in.begin(kind, by(1), format, args...)
	err := in.wait(p)
	ctx, cancel := in.healing()
	defer cancel()
	err = errors.Join(err, mend(ctx))
	if in.attack != nil {
		in.did("mended")
	}
	if kind == faulted {
		kind = mended
	}
	if lacks != nil {
		in.state.change(kind, by(-1))
	}
	return err
}

// wait lets the time of the step pass.
func (in *injector) wait(p step) error {
	if p.until != nil {
		return p.until(in.ctx)
	}
	sleep(in.ctx, p.last)
	return nil
}

// quietly is a mend that cannot fail.
func quietly(mend func()) func(context.Context) error {
	return func(context.Context) error {
		mend()
		return nil
	}
}

// sleep lets d pass, or the time until ctx ends.
func sleep(ctx context.Context, d time.Duration) { _ = client.Wait(ctx, d) }
