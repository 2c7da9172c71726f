package bench

import (
	"context"
	"errors"
)

var durable = benchmark{
	name:  "durable",
	about: "orders that are in MySQL before the 201, against a gin handler with constant JSON",
	needs: []tool{wrkTool},
	rows:  []Row{{Item: "2a", Name: "durable orders (201) / gin hello", Unit: "req/s", Target: atLeast(0.25)}},
	run: func(ctx context.Context, l *lab, rows []Row) error {
		return l.againstHello(ctx, "", rows)
	},
}

var queued = benchmark{
	name:  "queued",
	about: "orders answered 202 once they are queued, against the same",
	needs: []tool{wrkTool},
	rows:  []Row{{Item: "2b", Name: "queued orders (202) / gin hello", Unit: "req/s", Target: atLeast(0.33)}},
	run: func(ctx context.Context, l *lab, rows []Row) error {
		return l.againstHello(ctx, preferAsync, rows)
	},
}

func (l *lab) againstHello(ctx context.Context, header string, rows []Row) (err error) {
	ours, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	hello, err := l.startHello(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hello.Close()) }()
	mine, theirs := ours.selling(1, header), l.greeting(hello.Addr(), hello.Pid(), header)
	if err := l.warm(ctx, mine, theirs); err != nil {
		return err
	}
	return l.compare(ctx, &rows[0], mine, theirs)
}
