package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale/loadtest/judge"
)

// Figure formats a number with up to three digits, or as a whole number with commas if it is 100
// or more: 0.26, 38.2, 84,123.
func Figure(v float64) string {
	switch abs := math.Abs(v); {
	case abs == 0:
		return "0"
	case abs < 0.01:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case abs < 10:
		return strings.TrimSuffix(strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".0")
	case abs < 100:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return Thousands(v)
}

// Thousands formats a number without decimals and with commas.
func Thousands(v float64) string { return judge.Sprintf("%.0f", v) }

// Compact formats a number for the axis of a chart: 950, 1.5k, 20k.
func Compact(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", Round(v/1000, 1))
	}
	return fmt.Sprintf("%g", Round(v, 2))
}

// Human formats a duration in milliseconds or seconds: 2.1ms, 20ms, 1.25s.
func Human(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", Milliseconds(d))
	}
	return fmt.Sprintf("%.1fms", Milliseconds(d))
}

// Milliseconds returns d in milliseconds, rounded to a microsecond.
func Milliseconds(d time.Duration) float64 { return Round(float64(d)/float64(time.Millisecond), 3) }

// Round rounds v to the given number of decimals.
func Round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

// ByCount returns the keys of m in descending order of their counts.
func ByCount(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(m[b]-m[a], strings.Compare(a, b))
	})
}

// Quantiles contains the quantiles of N durations, by nearest rank. The quantiles of no durations
// are 0.
type Quantiles struct {
	N                       int
	P50, P90, P95, P99, Max time.Duration
}

// QuantilesOf returns the quantiles of all, which need not be sorted.
func QuantilesOf(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	all = slices.Clone(all)
	slices.Sort(all)
	rank := func(q float64) time.Duration { return all[max(0, int(math.Ceil(q*float64(len(all))))-1)] }
	return Quantiles{len(all), rank(0.5), rank(0.9), rank(0.95), rank(0.99), all[len(all)-1]}
}
