package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Limiters measures every limiter in turn, as many rounds as are asked for, and
// writes the medians. The figures of one line come from one stretch of time, so
// their ratio says more than they do.
func Limiters(ctx context.Context, out io.Writer, addr string, traffic LimiterTraffic, rounds int) error {
	if _, err := fmt.Fprintf(out, "limiter: %v\n", traffic); err != nil {
		return err
	}
	if traffic.Latency > 0 {
		way, err := openWay(addr, traffic.Latency)
		if err != nil {
			return err
		}
		defer way.Close()
		addr = way.Addr()
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "traffic\tlimiter\treq/s\tof redis_rate\tRedis µs/req\tcommands/req\terrors\tadmitted/bound")
	var single float64 // redis_rate's best with one limit on the spread keys
	var several float64
	for _, c := range limiterCases {
		runs := make([][]limiterFigures, len(limiterKinds))
		for range rounds {
			for i, k := range limiterKinds {
				f, err := runLimiter(ctx, addr, k, c, traffic)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", c.name, k.name, err)
				}
				runs[i] = append(runs[i], f)
			}
		}
		best := max(medianOf(runs[0], limiterFigures.perSecond), medianOf(runs[1], limiterFigures.perSecond))
		for i, k := range limiterKinds {
			rate := medianOf(runs[i], limiterFigures.perSecond)
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.2f\t%.4f\t%d\t%s\n", c.name, k.name, rate, rate/best,
				medianOf(runs[i], func(f limiterFigures) float64 { return f.RedisCPU.Seconds() * 1e6 / float64(f.Requests) }),
				medianOf(runs[i], func(f limiterFigures) float64 { return float64(f.Commands) / float64(f.Requests) }),
				int64(medianOf(runs[i], func(f limiterFigures) float64 { return float64(f.Errors) })),
				admitted(c, runs[i]))
		}
		switch c.name {
		case "4096 keys, allowed":
			single = best
		case "three limits, allowed":
			several = medianOf(runs[2], limiterFigures.perSecond)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "commands include those of scripts; admitted/bound is of burst + rate × time\nour three limits in one call / one limit of redis_rate: %.2f (target 0.9)\n\n", several/single)
	return err
}

// admitted is a share of the bound where the limit is reached.
func admitted(c limiterCase, runs []limiterFigures) string {
	if c.limit == far {
		return ""
	}
	if c.limit == scarce {
		return fmt.Sprint(int64(medianOf(runs, func(f limiterFigures) float64 { return float64(f.Allowed) }))) + " requests"
	}
	return fmt.Sprintf("%.3f", medianOf(runs, func(f limiterFigures) float64 { return f.ofBound(c.limit) }))
}

func medianOf(runs []limiterFigures, of func(limiterFigures) float64) float64 {
	values := make([]float64, len(runs))
	for i, f := range runs {
		values[i] = of(f)
	}
	slices.SortFunc(values, cmp.Compare[float64])
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
