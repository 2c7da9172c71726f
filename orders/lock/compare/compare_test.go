package main

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
)

// Every row can be measured, and has its columns. What it measures is not judged here.
func TestTables(t *testing.T) {
	lab := openLab(t, 20*time.Millisecond)
	for _, table := range append(locks(), limiters()...) {
		var out strings.Builder
		if err := table.print(t.Context(), &out, lab); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 1+len(table.rows)+len(table.notes)+1 && len(table.notes) > 0 || strings.Contains(out.String(), "NaN") {
			t.Errorf("%d lines:\n%s", lines, &out)
		}
	}
}

func openLab(t *testing.T, each time.Duration) *lab {
	lab, err := newLab(t.Context(), each, 1)
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.close)
	return lab
}

func TestSummary(t *testing.T) {
	ms := time.Millisecond
	s := summary([]time.Duration{4 * ms, 1 * ms, 2 * ms}, []float64{1, 1, 1, 3}, 12)
	if want := []float64{0.5, 2, 4, 2, 0.75, 2.0 / 3}; !slices.EqualFunc(s, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
		t.Errorf("%v, want %v", s, want)
	}
	if m := median([][]float64{{0, 5}, {0, 1}, {0, 2}, {0, 4}}, 1); m != 3 {
		t.Errorf("median %v", m)
	}
}

// Commands are counted however they are cut into pieces.
func TestCounter(t *testing.T) {
	stream := []byte("*2\r\n$3\r\nGET\r\n$4\r\nkey*\r\n*1\r\n$4\r\nPING\r\n")
	for size := 1; size <= len(stream); size++ {
		var c counter
		n := int64(0)
		for rest := stream; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			n += c.of(piece)
			rest = rest[len(piece):]
		}
		if n != 2 {
			t.Errorf("pieces of %d: %d commands, want 2", size, n)
		}
	}
}
