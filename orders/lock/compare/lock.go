package main

import (
	"context"
	"fmt"
	"time"
)

// locks compares locks that wait: each contender at its defaults, and as its
// documentation lets one tune it for speed.
func locks(ctx context.Context, lab *lab) (*table, error) {
	t := &table{
		title: "lock",
		header: []string{"", "", "latency", "pairs/s", "req/pair", "allocs/pair", "64 keys pairs/s",
			"hand-off p50", "p99", "max", "req/acquire", "Jain", "least share"},
		notes: []string{
			"pair: one process acquires and releases, nobody else wants it; 64 keys: by as many goroutines.",
			fmt.Sprintf("hand-off: %d processes want one lock, hold it for %v and think for %v; from the start of a release to the next", processes, hold, think),
			"holder. Jain's index of the processes' shares is 1 when all are equal; least share: the smallest to the mean.",
			"Every connection passes a proxy that counts requests and adds the latency.",
		},
	}
	for _, latency := range []time.Duration{0, time.Millisecond} {
		for _, c := range lockContenders {
			lab.progress("%s, %s, %v", c.name, c.how, latency)
			if err := lockRow(ctx, lab, t, c, latency); err != nil {
				return nil, fmt.Errorf("%s, %s, %v: %w", c.name, c.how, latency, err)
			}
		}
	}
	return t, nil
}

func lockRow(ctx context.Context, lab *lab, t *table, c lockContender, latency time.Duration) error {
	if err := lab.empty(ctx); err != nil {
		return err
	}
	w, err := openWay(lab.redis.Addr(), latency)
	if err != nil {
		return err
	}
	defer w.Close()
	single, err := uncontended(ctx, c, w, lab.each, 1)
	if err != nil {
		return err
	}
	many, err := uncontended(ctx, c, w, lab.each, 64)
	if err != nil {
		return err
	}
	crowd, err := contended(ctx, c, w, lab.each)
	if err != nil {
		return err
	}
	t.add(c.name, c.how, latency.String(),
		fmt.Sprintf("%.0f", single.perSecond), fmt.Sprintf("%.1f", single.requests), fmt.Sprintf("%.0f", single.allocs),
		fmt.Sprintf("%.0f", many.perSecond),
		ms(crowd.p50), ms(crowd.p99), ms(crowd.max),
		fmt.Sprintf("%.1f", crowd.requests), fmt.Sprintf("%.3f", crowd.jain), fmt.Sprintf("%.2f", crowd.least))
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2fms", float64(d.Microseconds())/1000) }
