package main

import (
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"flashsale/loadtest/servers"
)

// Every row of the locks can be measured. What it measures is not judged here.
func TestLocks(t *testing.T) {
	lab, err := newLab(t.Context(), 30*time.Millisecond)
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lab.close()
	table, err := locks(t.Context(), lab)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.rows) != 2*len(lockContenders) {
		t.Errorf("%d rows of %d contenders", len(table.rows), len(lockContenders))
	}
	for _, row := range table.rows {
		if len(row) != len(table.header) {
			t.Errorf("%d cells under %d headings: %v", len(row), len(table.header), row)
		}
	}
}

func TestSummary(t *testing.T) {
	gaps := []time.Duration{3, 1, 2}
	s := summary(gaps, []float64{1, 1, 1, 3}, 12)
	if s.p50 != 2 || s.max != 3 || s.requests != 2 || math.Abs(s.jain-0.75) > 1e-9 || math.Abs(s.least-2.0/3) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

// Commands are counted however they are cut into pieces.
func TestCounter(t *testing.T) {
	stream := []byte("*2\r\n$3\r\nGET\r\n$4\r\n*\r\n*\r\n*1\r\n$4\r\nPING\r\n")
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
