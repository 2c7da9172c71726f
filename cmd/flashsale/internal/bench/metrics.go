package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var metrics = benchmark{
	name:  "metrics",
	about: "orders of a node that is counted and scraped each second, against one that counts nothing",
	needs: []tool{wrkTool},
	rows: []Row{
		{Item: "14a", Name: "durable orders, metrics on / off", Unit: "orders/s", Target: atLeast(0.95)},
		{Item: "14b", Name: "CPU time of an order, metrics on / off", Unit: "µs", Target: Target{Bound: 1.05}},
		// A rate that two cores carry beside the attacker: a queue's p99 says nothing.
		{Item: "14c", Name: "p99 of 201s at 2,000/s, metrics on / off", Unit: "ms", Target: Target{Bound: 1.05}},
	},
	run: runMetrics,
}

func runMetrics(ctx context.Context, l *lab, rows []Row) (err error) {
	on, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.close()) }()
	off, err := l.startNode(ctx, "lua", "--no-metrics")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, off.close()) }()

	ours, theirs := on.scraped(on.selling(1, "")), off.selling(1, "")
	if err := l.warm(ctx, ours, theirs); err != nil {
		return err
	}
	if err := l.compareWithCPU(ctx, &rows[0], &rows[1], ours, theirs); err != nil {
		return err
	}
	if err := l.compare(ctx, &rows[2], on.scraped(on.ordering(2000)), off.ordering(2000)); err != nil {
		return err
	}
	for n, counts := range map[*node]bool{on: true, off: false} {
		counted, err := n.answered(ctx, http.StatusCreated, "")
		if err != nil {
			return n.logged(err)
		}
		if (counted > 0) != counts {
			return fmt.Errorf("%w: a node has counted %d orders, and it should count: %t", errCounts, counted, counts)
		}
	}
	return nil
}

// scraped has the node's metrics read each second while it is measured, far
// more often than a Prometheus does.
func (n *node) scraped(m measure) measure {
	return func(ctx context.Context) (sample, error) {
		stop := make(chan struct{})
		scraping := make(chan error, 1)
		go func() { scraping <- n.scrape(ctx, stop) }()
		s, err := m(ctx)
		close(stop)
		return s, errors.Join(err, <-scraping)
	}
}

func (n *node) scrape(ctx context.Context, stop <-chan struct{}) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		if _, err := n.get(ctx, "http://"+n.metrics+"/metrics"); err != nil {
			return n.logged(err)
		}
		select {
		case <-every.C:
		case <-stop:
			return nil
		}
	}
}
