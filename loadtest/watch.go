package loadtest

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// stockPoint is how many units anybody could read to be left, at one moment.
type stockPoint struct {
	at        time.Time
	available int
}

// stockLine is the stock over time, as the sale's public page has it. Safe for
// concurrent use.
type stockLine struct {
	mu     sync.Mutex
	points []stockPoint
}

func (l *stockLine) add(p stockPoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.points = append(l.points, p)
}

// last is the latest point; false: there is none yet.
func (l *stockLine) last() (stockPoint, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.points) == 0 {
		return stockPoint{}, false
	}
	return l.points[len(l.points)-1], true
}

func (l *stockLine) read() []stockPoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.points
}

// watch reads the stock until ctx ends, and once more then: many times over the
// attack, and seldom enough, over all sales, for a limiter's patience with one
// address.
func (r *run) watch(ctx context.Context, sales int) {
	every := time.Duration(sales) * max(50*time.Millisecond, r.c.Duration/200)
	for ctx.Err() == nil {
		r.readStock(ctx)
		_ = wait(ctx, every)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	r.readStock(ctx)
}

// readStock adds a point, or none where the server does not tell.
func (r *run) readStock(ctx context.Context) {
	var sale struct {
		Available *int `json:"available"`
	}
	err := r.operator.call(ctx, http.MethodGet, "/v1/sales/"+r.c.SKU, nil, &sale)
	if err == nil && sale.Available != nil {
		r.stock.add(stockPoint{time.Now(), *sale.Available})
	}
}
