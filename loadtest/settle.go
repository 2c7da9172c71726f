package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// errUnsettled reports that the audit kept changing.
var errUnsettled = errors.New("not at rest")

// A state contains the values that settle compares: the audit and, if the shop has none, the rows.
type state struct {
	judge.Audit
	text string // the rows as text, in the order of their ids
	rows []judge.Row
}

func (s state) equals(t state) bool { return s.Audit == t.Audit && s.text == t.text }

// state reads the audit of the sale. If the shop has none, it derives one from the rows.
func (r *run) state(ctx context.Context) (s state, err error) {
	if !r.c.lacks(judge.Auditing) {
		s.Audit, err = r.operator.Audit(ctx)
		return s, err
	}
	if s.rows, err = r.operator.Rows(ctx); err != nil {
		return state{}, err
	}
	slices.SortStableFunc(s.rows, func(a, b judge.Row) int { return strings.Compare(a.ID, b.ID) })
	s.Audit, s.text = judge.AuditOf(r.c.SKU, r.c.Stock, r.c.ReserveOn, s.rows), fmt.Sprint(s.rows)
	return s, nil
}

// settle waits until the sale is at rest and returns its audit. A sale is at rest if
// the audit stays the same for patience.rest and no units are queued or being released.
// If the audit shows drift, settle waits for Config.Repair, because the server may
// repair it. It returns errUnsettled if the audit keeps changing, or another error if
// the audit cannot be read.
func (r *run) settle(ctx context.Context) (judge.Audit, error) {
	limit, stop := context.WithTimeout(ctx, r.patience.settle) // limits the waits; each audit has the client's timeout
	defer stop()
	r.progress.start("settling", 0)
	defer r.progress.end()
	var (
		last  state
		since time.Time // time at which last was read first; zero if the sale is not at rest
		fault error
	)
	for {
		began := time.Now()
		a, err := r.state(ctx)
		switch {
		case err != nil:
			fault, since = err, time.Time{} // retry, because the server may recover
		case !a.equals(last) || a.Queued != 0 || a.Restoring != 0:
			fault, last, since = nil, a, time.Time{}
			if a.Queued == 0 && a.Restoring == 0 {
				since = time.Now()
			}
		case since.IsZero(): // first audit after an error
			since = time.Now()
		case began.Sub(since) >= r.patience.rest && r.lasts(a.Audit, began):
			return a.Audit, nil
		}
		if client.Wait(limit, r.patience.rest/5) == nil {
			continue
		}
		if fault != nil {
			return last.Audit, fmt.Errorf("read the audit: no answer within %v: %w", r.patience.settle, fault)
		}
		return last.Audit, fmt.Errorf("%w within %v", errUnsettled, r.patience.settle)
	}
}

// lasts reports whether an audit counts: it shows no drift, or the drift has lasted for
// Config.Repair, including earlier steps.
func (r *run) lasts(a judge.Audit, now time.Time) bool {
	switch {
	case a.Drift == 0:
		r.drifting = time.Time{}
		return true
	case r.drifting.IsZero():
		r.drifting = now
	}
	return now.Sub(r.drifting) >= cmp.Or(r.c.Repair, 10*time.Second)
}

// collect reads the rows between two equal audits, so that rows and audit are of the
// same moment, and then the feed of changes. If the feed does not report the rows, it reads
// both once more, because an order may have expired in between. If a read fails, it retries
// until patience.settle is over, because the server may be restarting.
func (r *run) collect(ctx context.Context) (audit judge.Audit, rows []judge.Row, err error) {
	limit, stop := context.WithTimeout(ctx, r.patience.settle)
	defer stop()
	for changed := 0; changed < 5; {
		var same bool
		if rows, audit, same, err = r.read(ctx); err == nil && same && (r.readFeed(ctx, rows) || changed > 0) {
			return audit, rows, nil
		}
		if err == nil {
			changed++
		} else if client.Wait(limit, r.patience.rest) != nil {
			return audit, nil, err
		}
	}
	r.readFeed(ctx, rows)
	return audit, rows, fmt.Errorf("%w: the audit changed during each of 5 reads of the rows", errUnsettled)
}

// read reads the audit, the rows, and the audit again. It reports whether both audits are
// the same.
func (r *run) read(ctx context.Context) (rows []judge.Row, audit judge.Audit, same bool, err error) {
	before, err := r.state(ctx)
	if rows = before.rows; err == nil && !r.c.lacks(judge.Auditing) {
		rows, err = r.operator.Rows(ctx)
	}
	if err != nil {
		return rows, audit, false, err
	}
	after, err := r.state(ctx)
	return rows, after.Audit, before.equals(after), err
}
