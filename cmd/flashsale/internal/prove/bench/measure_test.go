package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{10, 1, 2, 100}, 6},
	} {
		given := slices.Clone(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", given, got, c.want)
		}
		if !slices.Equal(given, c.values) {
			t.Errorf("median: it sorted its argument to %v, so rounds are no longer pairs", given)
		}
	}
}

// rounds measures with fixed values. It returns the row and the order of the sides.
func rounds(t *testing.T, ours, theirs []float64, row Row) (Row, string) {
	t.Helper()
	order := ""
	side := func(name string, values []float64) measure {
		return func(context.Context) (sample, error) {
			order += name
			v := values[0]
			if len(order) > 2 { // the first value of each side is for warming up
				values = values[1:]
			}
			return sample{value: v}, nil
		}
	}
	l, rows := &bench{Lab: &lab.Lab{}, cfg: Config{Rounds: len(ours)}}, []Row{row}
	check.Must(t, l.contest(t.Context(), rows, side("a", ours), side("b", theirs)))
	return rows[0], order
}

func TestContestAlternatesSides(t *testing.T) {
	v := []float64{1, 1, 1}
	if _, order := rounds(t, v, v, Row{}); order != "ababbaab" {
		t.Errorf("contest: got the order of sides %s, want ababbaab", order)
	}
}

// A machine that is half as fast in one round does not change the ratio.
func TestContestComparesWithinRounds(t *testing.T) {
	ours, theirs := []float64{50, 20, 26}, []float64{100, 40, 50}
	row, _ := rounds(t, slices.Clone(ours), slices.Clone(theirs), Row{Target: atLeast(0.5)})
	if row.Ours != 26 || row.Counterpart != 50 || row.Ratio != 0.5 || !*row.Met {
		t.Errorf("row of the contest: got %+v, want ours 26, counterpart 50, ratio 0.5, met", row)
	}
	// The ratio of the medians is wrong: it compares different rounds.
	if wrong := median(ours) / median(theirs); math.Abs(wrong-0.5) < 0.01 {
		t.Errorf("ratio of the medians: got %v, want another ratio than that of the rounds, or the test proves nothing", wrong)
	}
}

func TestContestReturnsErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context) (sample, error) { return sample{}, broken }
	works := func(context.Context) (sample, error) { return sample{value: 1}, nil }
	l, rows := &bench{Lab: &lab.Lab{}, cfg: Config{Rounds: 2}}, make([]Row, 1)
	if err := l.contest(t.Context(), rows, works, fails); !errors.Is(err, broken) || rows[0].Met != nil {
		t.Errorf("contest with a failing side: got error %v, row %+v, want error %v and no verdict", err, rows[0], broken)
	}
}

func TestMedianCPU(t *testing.T) {
	none := math.NaN()
	with := []sample{{cpu: cost{1, 2, none}}, {cpu: cost{3, 4, none}}}
	if cpu := medianCPU(with); cpu.App != 2 || *cpu.Redis != 3 || cpu.MySQL != nil {
		t.Errorf("CPU of the median round: got %+v, want app 2, Redis 3, no MySQL", cpu)
	}
	if cpu := medianCPU(append(with, sample{})); cpu != nil {
		t.Errorf("CPU with a round without CPU times: got %+v, want nil", cpu)
	}
}

func TestRowMeetsItsTarget(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want bool
	}{
		{Row{Ratio: 0.85, Target: atLeast(0.85)}, true},
		{Row{Ratio: 0.8499, Ours: 99, Target: atLeast(0.85)}, false},
		{Row{Ours: 10, Ratio: 99, Target: atMost(10)}, true},
		{Row{Ours: 10.01, Target: atMost(10)}, false},
		{Row{Ratio: 2.5, Ours: 99, Target: Target{Bound: 2.5}}, true},
		{Row{Ratio: 2.6, Target: Target{Bound: 2.5}}, false},
	} {
		if c.row.judge(); *c.row.Met != c.want {
			t.Errorf("row %+v: got target met %v, want %v", c.row, *c.row.Met, c.want)
		}
	}
}

func TestNamesSelectBenchmarks(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  bool
	}{{nil, true}, {[]string{"gate", "durable"}, true}, {[]string{"gate"}, false}} {
		if got := (Config{Names: c.names}).wants(durable); got != c.want {
			t.Errorf("benchmark durable with the names %v: got selected %t, want %t", c.names, got, c.want)
		}
	}
}
