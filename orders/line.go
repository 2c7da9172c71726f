package orders

import (
	"context"
	"sync"
	"sync/atomic"

	"flashsale/inventory"
)

// A line is where buyers wait for a transaction that no gate stands before. The
// buyers of one moment share it, as they share the gate's script: whoever comes
// while one is under way waits for the next.
type line struct {
	most   int64         // who may be in it at once; the others hear inventory.ErrBusy
	batch  int           // who may share a transaction
	turns  chan struct{} // as many as transactions may be under way at once
	full   *atomic.Int64 // counts those, where not nil
	commit func(ctx context.Context, sku string, batch []inventory.Queued) ([]verdict, error)

	inLine atomic.Int64

	mu    sync.Mutex
	lines map[string][]*lined // by SKU; there while a transaction of it is under way
}

func newLine(most, batch, turns int, commit func(context.Context, string, []inventory.Queued) ([]verdict, error)) *line {
	return &line{
		most: int64(most), batch: batch, turns: make(chan struct{}, turns),
		commit: commit, lines: map[string][]*lined{},
	}
}

// lined is one who waits in a line.
type lined struct {
	ctx     context.Context
	queued  inventory.Queued
	done    chan struct{}
	verdict verdict
	err     error
}

// place carries one order into the database. Errors: those of commit;
// inventory.ErrBusy.
func (l *line) place(ctx context.Context, sku string, q inventory.Queued) (verdict, error) {
	defer l.inLine.Add(-1)
	if l.inLine.Add(1) > l.most {
		if l.full != nil {
			l.full.Add(1)
		}
		return verdict{}, inventory.ErrBusy
	}
	o := &lined{ctx: ctx, queued: q, done: make(chan struct{})}
	l.mu.Lock()
	waiting, sending := l.lines[sku]
	l.lines[sku] = append(waiting, o)
	l.mu.Unlock()
	if !sending {
		go l.send(sku)
	}
	select {
	case <-o.done:
		return o.verdict, o.err
	case <-ctx.Done(): // its order may come about: it is found under its key
		return verdict{}, ctx.Err()
	}
}

// send makes transactions until nobody waits. It ends by itself, bounded by
// each one's timeout.
func (l *line) send(sku string) {
	for {
		l.turns <- struct{}{}
		batch := l.next(sku)
		if batch != nil {
			l.carry(sku, batch)
		}
		<-l.turns
		if batch == nil {
			return
		}
	}
}

// next takes those who wait and still want to, or ends this sender.
func (l *line) next(sku string) (batch []*lined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.lines[sku]
	for len(waiting) > 0 && len(batch) < l.batch {
		if waiting[0].ctx.Err() == nil {
			batch = append(batch, waiting[0])
		}
		waiting = waiting[1:]
	}
	if batch == nil {
		delete(l.lines, sku)
	} else {
		l.lines[sku] = waiting
	}
	return batch
}

// carry makes one transaction of a batch, or one of each order where the
// database refuses what is in it: one bad order must not take the others along.
// It runs under its own context: nor must a caller who gives up.
func (l *line) carry(sku string, batch []*lined) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	queued := make([]inventory.Queued, len(batch))
	for i, o := range batch {
		queued[i] = o.queued
	}
	verdicts, err := l.commit(ctx, sku, queued)
	if isBadData(err) && len(batch) > 1 {
		for i := range batch {
			l.carry(sku, batch[i:i+1])
		}
		return
	}
	for i, o := range batch {
		if o.err = err; err == nil {
			o.verdict = verdicts[i]
		}
		close(o.done)
	}
}
