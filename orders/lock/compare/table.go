package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// A table has a row per contender, and the medians of its figures.
type table struct {
	title   string
	columns []string // "name format" of each figure
	rows    []row
	notes   []string
}

// A row is measured once in each round, on an empty Redis.
type row struct {
	name    []string // its group, the contender, and how that is used
	measure func(ctx context.Context, lab *lab) ([]float64, error)
	peer    bool // somebody else's: the last column has 1 for the best of them in the group
}

// print measures all rows in turn, as many rounds as the lab has. The figures of one
// group come from one stretch of time, so their ratio says more than they do.
func (t table) print(ctx context.Context, out io.Writer, lab *lab) error {
	runs := make([][][]float64, len(t.rows))
	for round := range lab.rounds {
		for i := range t.rows {
			i = (i + round) % len(t.rows) // each round begins with another row
			r := t.rows[i]
			fmt.Fprintf(os.Stderr, "round %d: %s: %s\n", round+1, t.title, strings.Join(r.name, ", "))
			if err := lab.empty(ctx); err != nil {
				return err
			}
			figures, err := r.measure(ctx, lab)
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(r.name, ", "), err)
			}
			runs[i] = append(runs[i], figures)
		}
	}
	best := map[string]float64{} // peer's first figure, by group
	for i, r := range t.rows {
		if r.peer {
			best[r.name[0]] = max(best[r.name[0]], median(runs[i], 0))
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, t.title, strings.Repeat("\t", len(t.rows[0].name)))
	for _, c := range t.columns {
		name, _, _ := strings.Cut(c, "%")
		fmt.Fprint(w, name, "\t")
	}
	fmt.Fprintln(w, "of the best other")
	for i, r := range t.rows {
		fmt.Fprint(w, strings.Join(r.name, "\t"), "\t")
		for n, c := range t.columns {
			_, format, _ := strings.Cut(c, "%")
			fmt.Fprintf(w, "%"+format+"\t", median(runs[i], n))
		}
		fmt.Fprintf(w, "%.2f\n", median(runs[i], 0)/best[r.name[0]])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, strings.Join(append(t.notes, ""), "\n"))
	return err
}

// median is that of the runs' n-th figures.
func median(runs [][]float64, n int) float64 {
	var values []float64
	for _, figures := range runs {
		values = append(values, figures[n])
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
