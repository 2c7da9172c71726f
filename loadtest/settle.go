package loadtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnsettled says that the sale's numbers kept moving.
var errUnsettled = errors.New("not at rest")

// settle waits until the audit has been the same for patience.rest with
// nothing held and nothing to be restored, and returns it. Orders that expire
// meanwhile only make it wait longer, and drift must have lasted: a server that
// finds it may be about to mend it. It fails with errUnsettled, or with what
// kept it from reading the audit: then nothing is known about the sale.
func (r *run) settle(ctx context.Context) (Audit, error) {
	ctx, stop := context.WithTimeout(ctx, r.patience.settle)
	defer stop()
	r.progress.start("settling", 0)
	defer r.progress.end()
	var (
		last  Audit
		since time.Time // when last had first been read; zero: not at rest
		fault error
	)
	for {
		began := time.Now()
		a, err := r.operator.audit(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				fault = err // a server that is away may come back in time
			}
			since = time.Time{}
		case a != last || a.Held != 0 || a.Restoring != 0:
			fault, last, since = nil, a, time.Time{}
			if a.Held == 0 && a.Restoring == 0 {
				since = time.Now()
			}
		case since.IsZero(): // the first one after the server was away
			since = time.Now()
		case began.Sub(since) >= r.patience.rest && r.lasts(a, began):
			return a, nil
		}
		if wait(ctx, r.patience.rest/5) == nil {
			continue
		}
		if fault != nil {
			return last, fmt.Errorf("no audit within %v: %w", r.patience.settle, fault)
		}
		return last, fmt.Errorf("%w within %v", errUnsettled, r.patience.settle)
	}
}

// lasts reports whether the drift of an audit is there to stay: it has been seen
// for patience.repair, over all of the run. No drift is.
func (r *run) lasts(a Audit, now time.Time) bool {
	switch {
	case a.Drift == 0:
		r.drifting = time.Time{}
		return true
	case r.drifting.IsZero():
		r.drifting = now
	}
	return now.Sub(r.drifting) >= r.patience.repair
}

// collect reads the rows between two equal audits, so that both speak of the
// same moment.
func (r *run) collect(ctx context.Context) (Audit, []Row, error) {
	var (
		after Audit
		rows  []Row
	)
	for range 5 {
		before, err := r.operator.audit(ctx)
		if err != nil {
			return Audit{}, nil, err
		}
		if rows, err = r.operator.rows(ctx); err != nil {
			return Audit{}, nil, err
		}
		if after, err = r.operator.audit(ctx); err != nil {
			return Audit{}, nil, err
		}
		if before == after {
			return after, rows, nil
		}
	}
	return after, rows, fmt.Errorf("%w: the audit changed during each of 5 reads of the rows", errUnsettled)
}
