package main

import (
	"context"
	"io"
	"time"
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
		for _, traffic := range []LimiterTraffic{
			{Processes: 2, Callers: 128, For: lab.each},
			{Processes: 2, Callers: 128, For: lab.each, Latency: time.Millisecond},
			{Processes: 1, Callers: 1, For: lab.each}, // nobody to share a call with
			{Processes: 1, Callers: 1, For: lab.each, Latency: time.Millisecond},
		} {
			lab.progress("limiters, %v", traffic)
			if err := Limiters(ctx, out, lab.redis.Addr(), traffic, 3); err != nil {
				return err
			}
		}
		return nil
	}},
}
