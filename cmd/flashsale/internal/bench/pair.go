package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A sample is one measurement of one side.
type sample struct {
	value float64 // in the row's unit
	cpu   *CPU
	note  string // what a reader of the row should know
}

// measure takes one sample.
type measure func(ctx context.Context) (sample, error)

// alternate measures all sides in every round, and lets another one begin each
// time: what drifts (a disk filling up, a neighbour at work) hits all. It
// returns the samples of each side, round by round. The first side is ours.
func (l *lab) alternate(ctx context.Context, unit string, sides ...measure) ([][]sample, error) {
	samples := make([][]sample, len(sides))
	for round := range l.cfg.Rounds {
		for i := range sides {
			i = (i + round) % len(sides)
			s, err := sides[i](ctx)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
			samples[i] = append(samples[i], s)
		}
		var figures []string
		for _, of := range samples {
			figures = append(figures, figure(of[round].value))
		}
		l.say("  round %d of %d: ours %s, counterpart %s %s", round+1, l.cfg.Rounds,
			figures[0], strings.Join(figures[1:], " and "), unit)
	}
	return samples, nil
}

// compare fills a row by measuring both sides in turn.
func (l *lab) compare(ctx context.Context, row *Row, ours, theirs measure) error {
	samples, err := l.alternate(ctx, row.Unit, ours, theirs)
	if err != nil {
		return err
	}
	row.fill(samples[0], samples[1])
	return nil
}

// compareWithCPU fills a row by measuring both sides in turn, and another one
// with the CPU time of the same measurements.
func (l *lab) compareWithCPU(ctx context.Context, row, cpu *Row, ours, theirs measure) error {
	samples, err := l.alternate(ctx, row.Unit, ours, theirs)
	if err != nil {
		return err
	}
	row.fill(samples[0], samples[1])
	if row.CPU == nil || row.CounterpartCPU == nil {
		cpu.Note = "CPU times are known on Linux only"
		return nil
	}
	cpu.fill(cpuOf(samples[0]), cpuOf(samples[1]))
	return nil
}

// cpuOf are the samples' CPU times, of all processes.
func cpuOf(samples []sample) []sample {
	of := make([]sample, len(samples))
	for i, s := range samples {
		of[i].value = s.cpu.App + *s.cpu.Redis + *s.cpu.MySQL
	}
	return of
}

// fill compares two sides that were measured in the same rounds.
func (r *Row) fill(ours, theirs []sample) {
	ratios := make([]float64, len(ours))
	for i := range ratios {
		ratios[i] = ours[i].value / theirs[i].value
	}
	r.Ours, r.Counterpart, r.Ratio = median(values(ours)), median(values(theirs)), median(ratios)
	r.CPU, r.CounterpartCPU = medianCPU(ours), medianCPU(theirs)
	for _, s := range slices.Concat(ours, theirs) {
		if s.note != "" {
			r.Note = s.note
		}
	}
	r.judge()
}

func values(samples []sample) []float64 {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = s.value
	}
	return v
}

// median of at least one value, in any order; of an even number the mean of
// the middle two.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// medianCPU is nil where one of the samples has none.
func medianCPU(samples []sample) *CPU {
	of := func(pick func(*CPU) *float64) *float64 {
		var v []float64
		for _, s := range samples {
			if s.cpu == nil || pick(s.cpu) == nil {
				return nil
			}
			v = append(v, *pick(s.cpu))
		}
		m := median(v)
		return &m
	}
	app := of(func(c *CPU) *float64 { return &c.App })
	if app == nil {
		return nil
	}
	return &CPU{
		App:   *app,
		Redis: of(func(c *CPU) *float64 { return c.Redis }),
		MySQL: of(func(c *CPU) *float64 { return c.MySQL }),
	}
}
