package main

import (
	"context"
	"io"
)

// A family is one table: what is compared, and how it is measured.
type family struct {
	name string
	run  func(ctx context.Context, lab *lab, out io.Writer) error
}

// families are printed in this order.
var families = []family{
	{"lock", func(ctx context.Context, lab *lab, out io.Writer) error {
		t, err := locks(ctx, lab)
		if err == nil {
			t.print(out)
		}
		return err
	}},
	{"limiter", func(ctx context.Context, lab *lab, out io.Writer) error {
		lab.progress("limiters, straight to Redis")
		return Limiters(ctx, out, lab.redis.Addr(), LimiterTraffic{Processes: 2, Callers: 128, For: lab.each}, 3)
	}},
}
