package bench

import (
	"context"
	"errors"
)

var reconcile = benchmark{
	name:  "reconcile",
	about: "orders while the two stores are compared, against a node that does not compare them",
	needs: []tool{wrkTool},
	rows: []Row{
		{Item: "13a", Name: "durable orders, compared / not", Unit: "orders/s", Target: atLeast(0.99)},
		// What a second of throughput hides among its ups and downs shows here.
		{Item: "13b", Name: "CPU time of an order, compared / not", Unit: "µs", Target: Target{Bound: 1.01}},
	},
	run: runReconcile,
}

func runReconcile(ctx context.Context, l *lab, rows []Row) (err error) {
	compared, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, compared.close()) }()
	trusted, err := l.startNode(ctx, "lua", "--reconcile-every", "24h", "--reconcile-holds-every", "24h")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trusted.close()) }()
	ours, theirs := compared.selling(1, ""), trusted.selling(1, "")
	if err := l.warm(ctx, ours, theirs); err != nil {
		return err
	}
	return l.compareWithCPU(ctx, &rows[0], &rows[1], ours, theirs)
}
