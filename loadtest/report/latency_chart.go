package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"flashsale/loadtest/judge"
)

// latencyChart is the latency over time. Its axis of time is that of the columns
// of answers; its axis of latencies is logarithmic.
type latencyChart struct {
	Lines          []percentileLine
	Seconds        []column
	XTicks, YTicks []tick
}

// percentileLine is a percentile of the orders that were sent in each second, as
// an SVG path in steps. It has a gap where none were sent.
type percentileLine struct{ Name, Path string }

func (rep *Report) latencyChart() latencyChart {
	c := latencyChart{XTicks: rep.columns().XTicks}
	span := rep.timeline.span().Seconds()
	if span == 0 {
		return c
	}
	// What is left of the last second belongs to the one before it.
	sent := make([][]time.Duration, int(max(1, math.Round(span))))
	for _, q := range rep.Evidence.Requests {
		if q.Attack {
			at := min(int(q.Sent.Sub(rep.first)/time.Second), len(sent)-1)
			sent[at] = append(sent[at], max(q.Latency, time.Microsecond))
		}
	}
	seconds := make([]Quantiles, len(sent))
	low, high := math.Inf(1), math.Inf(-1) // powers of ten, in nanoseconds
	for i, all := range sent {
		if seconds[i] = QuantilesOf(all); len(all) > 0 {
			low = min(low, math.Floor(math.Log10(float64(seconds[i].P50))))
			high = max(high, math.Ceil(math.Log10(float64(seconds[i].P99))), low+1)
		}
	}
	y := func(power float64) float64 { return chartHeight * (high - power) / (high - low) }
	c.YTicks = ticks(low, high, 1, y, func(power float64) string { return time.Duration(math.Pow(10, power)).String() })
	var p50, p95, p99 strings.Builder
	for i, q := range seconds {
		if q.N == 0 {
			continue
		}
		from, to := chartWidth*float64(i)/span, chartWidth*min(1, float64(i+1)/span)
		c.Seconds = append(c.Seconds, column{X: from, W: to - from, Title: fmt.Sprintf("second %d: p50 %s, p95 %s, p99 %s of %s sent",
			i+1, Human(q.P50), Human(q.P95), Human(q.P99), judge.Plural(q.N, "order"))})
		for line, latency := range map[*strings.Builder]time.Duration{&p50: q.P50, &p95: q.P95, &p99: q.P99} {
			step := "V"
			if i == 0 || seconds[i-1].N == 0 {
				step = fmt.Sprintf("M%.1f ", from)
			}
			fmt.Fprintf(line, "%s%.1fH%.1f", step, y(math.Log10(float64(latency))), to)
		}
	}
	c.Lines = []percentileLine{{"p50", p50.String()}, {"p95", p95.String()}, {"p99", p99.String()}}
	return c
}
