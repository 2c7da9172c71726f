package bench

import (
	"context"
	"errors"
)

var perOrder = benchmark{
	name:  "lock",
	about: "durable orders, against a lock, a transaction and an unlock for each order",
	needs: []tool{wrkTool},
	rows:  []Row{{Item: "1", Name: "durable orders / lock per order", Unit: "orders/s", Target: atLeast(25)}},
	run: func(ctx context.Context, l *lab, rows []Row) (err error) {
		ours, err := l.startNode(ctx, "lua")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ours.close()) }()
		locked, err := l.startNode(ctx, "lock-per-order")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, locked.close()) }()
		mine, theirs := ours.selling(1, ""), locked.selling(1, "")
		if err := l.warm(ctx, mine, theirs); err != nil {
			return err
		}
		return l.compare(ctx, &rows[0], mine, theirs)
	},
}
