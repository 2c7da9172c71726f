package report

import (
	"fmt"
	"math"
	"time"

	"flashsale/loadtest/judge"
)

// LatencyChart is a chart of the latency over time, with a logarithmic axis.
type LatencyChart struct {
	Lines          []percentileLine
	Seconds        []second
	XTicks, YTicks []tick
}

// second is an area of the chart whose title lists the percentiles of one second.
type second struct {
	X, W  float64
	Title string
}

// percentileLine is an SVG path of one percentile, with a step per second. It has a gap in each
// second without orders.
type percentileLine struct{ Name, Path string }

// LatencyChart returns the chart of the latency.
func (rep *Report) LatencyChart() LatencyChart {
	span := rep.span.Seconds()
	if span == 0 {
		return LatencyChart{}
	}
	c := LatencyChart{XTicks: rep.timeTicks()}
	// A last second that is shorter than half a second is part of the second before it.
	seconds := make([][]time.Duration, int(max(1, math.Round(span))))
	for _, q := range rep.Evidence.Requests {
		if q.Attack {
			at := min(int(q.Sent.Sub(rep.first)/time.Second), len(seconds)-1)
			seconds[at] = append(seconds[at], max(q.Latency, time.Microsecond))
		}
	}
	quantiles := make([]Quantiles, len(seconds))
	least, most := rep.Latency.Max, time.Microsecond
	for i, latencies := range seconds {
		if q := QuantilesOf(latencies); q.N > 0 {
			quantiles[i], least, most = q, min(least, q.P50), max(most, q.P99)
		}
	}
	// low and high are powers of ten, of nanoseconds.
	low := math.Floor(math.Log10(float64(max(least, time.Microsecond))))
	high := max(math.Ceil(math.Log10(float64(most))), low+1)
	y := func(power float64) float64 { return chartHeight * (high - power) / (high - low) }
	c.YTicks = ticks(low, high, 1, y, func(power float64) string { return time.Duration(math.Pow(10, power)).String() })
	c.Lines = []percentileLine{{Name: "p50"}, {Name: "p95"}, {Name: "p99"}}
	for i, q := range quantiles {
		if q.N == 0 {
			continue
		}
		from, to := chartWidth*float64(i)/span, chartWidth*min(1, float64(i+1)/span)
		c.Seconds = append(c.Seconds, second{X: from, W: to - from, Title: fmt.Sprintf("second %d: p50 %s, p95 %s, p99 %s of %s sent",
			i+1, Human(q.P50), Human(q.P95), Human(q.P99), judge.Plural(q.N, "order"))})
		step := "V"
		if i == 0 || len(seconds[i-1]) == 0 {
			step = fmt.Sprintf("M%.1f ", from)
		}
		for line, latency := range []time.Duration{q.P50, q.P95, q.P99} {
			c.Lines[line].Path += fmt.Sprintf("%s%.1fH%.1f", step, y(math.Log10(float64(latency))), to)
		}
	}
	return c
}
