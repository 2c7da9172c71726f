package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
)

// A fault is one entry of the catalogue, for drills and storms.
type fault struct {
	name    string
	happens string
	draws

	// do breaks something and repairs it. If the context ends, do repairs at once. It
	// returns an error if nothing broke or if the repair failed.
	do func(in *injector, p step) error

	// Fields for drills. A fault without these texts is only drawn by storms.
	sees  string // effects that buyers notice
	never string // effects that must not happen
	// aim completes the step: it chooses the node, and the event that ends the fault. If
	// aim is nil, the step is complete.
	aim func(ctx context.Context, a *attack, p *step) error
	// keeper is true if the fault needs a keeper, a gate, direct mode or clocks, which
	// variants of the gallery do not have.
	keeper  bool
	lease   time.Duration // lease of the nodes; 0 means the constant lease
	longer  time.Duration // time by which the attack is longer than Config.Duration
	standby bool          // MySQL has a replica
	group   bool          // MySQL is the primary of a replication group
	clocks  bool          // the clocks of the nodes differ
}

// draws are the parameters of a drawn step. A fault without variants is only for drills.
type draws struct {
	variants    int           // number of forms
	least, most time.Duration // bounds of the duration
	joins       bool          // the fault may run at the same time as any other fault
}

// byName reports whether the drill runs only if it is named, because failing over a
// database takes long.
func (f *fault) byName() bool { return f.standby || f.group }

// A step is one fault with its target and its duration.
type step struct {
	fault   *fault
	node    int           // index of the target node, if any
	sku     int           // index of the target sale, if any
	variant int           // form of the fault
	last    time.Duration // duration of the fault
	with    *step         // a second fault at the same time, or nil
	calm    time.Duration // pause after the fault

	until func(ctx context.Context) error // waits for the end of the fault; if nil, last is its duration
	after func(ctx context.Context) error // in a drill, waits for something after the repair

	down time.Duration // in a drill, the time without a primary
}

func draw(random *rand.Rand, f *fault) step {
	return step{
		fault: f, node: random.IntN(nodeCount), sku: random.IntN(skuCount),
		variant: random.IntN(max(1, f.variants)), last: lab.RandomDuration(random, f.least, f.most),
	}
}

// An injector carries out steps, for a storm or for a drill.
type injector struct {
	*stage
	*notes
	ctx      context.Context // its end shortens faults
	state    *brokenState
	skus     [skuCount]string
	operator *operator // operator of the storm; nil in a drill
	attack   *attack   // attack of the drill; nil in a storm
}

// healing returns a context for repairs. It continues after the storm or the drill, for
// at most lab.Patience.
func (in *injector) healing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(in.ctx), lab.Patience)
}

// begin records what was done, and the change of the state.
func (in *injector) begin(kind change, what func(c *brokenState), format string, args ...any) {
	in.did(format, args...)
	in.state.change(kind, what)
}

// lasts waits for the duration of the step and then calls mend. In between, lacks has
// changed the state; lacks is nil if the fault takes nothing away.
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

func (in *injector) wait(p step) error {
	if p.until != nil {
		return p.until(in.ctx)
	}
	sleep(in.ctx, p.last)
	return nil
}

// quietly returns a repair function that cannot fail.
func quietly(mend func()) func(context.Context) error {
	return func(context.Context) error {
		mend()
		return nil
	}
}

func sleep(ctx context.Context, d time.Duration) { _ = client.Wait(ctx, d) }
