package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

var reconcile = benchmark{
	name:  "reconcile",
	about: "orders while the two stores are compared, against a node that does not compare them",
	needs: wrkProgram,
	rows: []Row{
		{Item: "13a", Name: "durable orders, compared / not", Unit: "orders/s", Target: atLeast(0.99)},
		// What a second of throughput hides among its ups and downs shows here.
		{Item: "13b", Name: "CPU time of an order, compared / not", Unit: "µs", Target: Target{Bound: 1.01}, ofCPU: true},
	},
	run: runReconcile,
}

func runReconcile(ctx context.Context, l *bench, rows []Row) error {
	compared, trusted, err := l.twoNodes(ctx, "--reconcile-every", "24h", "--reconcile-holds-every", "24h")
	if err != nil {
		return err
	}
	return l.contest(ctx, rows, compared.selling(""), trusted.selling(""))
}

// twoNodes starts a node and another one with further flags.
func (l *bench) twoNodes(ctx context.Context, flags ...string) (plain, other *node, err error) {
	if plain, err = l.startNode(ctx); err == nil {
		other, err = l.startNode(ctx, flags...)
	}
	return plain, other, err
}

var metrics = benchmark{
	name:  "metrics",
	about: "orders of a node that is counted and scraped each second, against one that counts nothing",
	needs: wrkProgram,
	rows: []Row{
		{Item: "14a", Name: "durable orders, metrics on / off", Unit: "orders/s", Target: atLeast(0.98)},
		{Item: "14b", Name: "CPU time of an order, metrics on / off", Unit: "µs", Target: Target{Bound: 1.02}, ofCPU: true},
		// A rate that two cores carry beside the attacker: a queue's p99 says nothing.
		{Item: "14c", Name: "p99 of 201s at 2,000/s, metrics on / off", Unit: "ms", Target: Target{Bound: 1.05}},
	},
	run: runMetrics,
}

func runMetrics(ctx context.Context, l *bench, rows []Row) error {
	on, off, err := l.twoNodes(ctx, "--no-metrics")
	if err != nil {
		return err
	}
	if err := l.contest(ctx, rows[:2], on.scraped(on.selling("")), off.selling("")); err != nil {
		return err
	}
	if err := l.contest(ctx, rows[2:], on.scraped(on.ordering(2000, 1)), off.ordering(2000, 1)); err != nil {
		return err
	}
	for n, counts := range map[*node]bool{on: true, off: false} {
		counted, err := n.answered(ctx, http.StatusCreated, "")
		if err != nil {
			return err
		}
		if (counted > 0) != counts {
			return fmt.Errorf("%w: a node has counted %.0f orders, and it should count: %t", errCounts, counted, counts)
		}
	}
	return nil
}

// scraped has the node's metrics read each second while it is measured, far
// more often than a Prometheus does.
func (n *node) scraped(m measure) measure {
	return func(ctx context.Context) (sample, error) {
		measuring, stop := context.WithCancel(ctx)
		scraping := make(chan error, 1)
		go func() {
			scraping <- lab.Poll(measuring, time.Second, func() (bool, error) {
				_, err := lab.Get(ctx, "http://"+n.metrics+"/metrics")
				return false, err
			})
		}()
		s, err := m(ctx)
		stop()
		if scraped := <-scraping; !errors.Is(scraped, context.Canceled) {
			err = errors.Join(err, scraped)
		}
		return s, err
	}
}
