package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00012: "0.00012", 0.256: "0.26", 1: "1", 2.5: "2.5", 9.25: "9.25", 38.24: "38.2", 40: "40", 999.6: "1,000", 84_123.4: "84,123",
		1_234_567: "1,234,567", -1500: "-1,500", 100_000: "100,000", 123: "123", -123: "-123",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v): got %q, want %q", v, got, want)
		}
	}
}

func TestQuantilesAreByNearestRank(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	if got, want := QuantilesOf(all), (Quantiles{100, 50, 90, 95, 99, 100}); got != want {
		t.Errorf("quantiles of 1 to 100: got %v, want %v", got, want)
	}
	if got, want := QuantilesOf(all[:1]), (Quantiles{1, 100, 100, 100, 100, 100}); got != want {
		t.Errorf("quantiles of one value: got %v, want %v", got, want)
	}
	if got := QuantilesOf(nil); got != (Quantiles{}) {
		t.Errorf("quantiles of no values: got %v, want zero", got)
	}
}

func TestText(t *testing.T) {
	var text Text
	text.Line("head %d", 1)
	text.Row("a", "bcd", "e")
	text.Row("long", 2, "f")
	text.Line("tail")
	text.Row("x", "y")
	var got strings.Builder
	const want = "head 1\na     bcd  e\nlong  2    f\ntail\nx  y\n"
	if err := text.Write(&got); err != nil || got.String() != want {
		t.Errorf("text with columns: got %q, error %v, want %q", got.String(), err, want)
	}
}

func TestSaveReturnsWriteError(t *testing.T) {
	dir, broken := filepath.Join(t.TempDir(), "new"), errors.New("broken")
	write := func(w io.Writer) error { return JSON(w, "<b>") }
	check.Must(t, Save(dir, map[string]func(io.Writer) error{"a.json": write}))
	if got, err := os.ReadFile(filepath.Join(dir, "a.json")); err != nil || string(got) != "\"<b>\"\n" {
		t.Errorf("a.json: got %q, error %v, want %q", got, err, "\"<b>\"\n")
	}
	if err := Save(dir, map[string]func(io.Writer) error{"b": func(io.Writer) error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("Save with a failing writer: got error %v, want %v", err, broken)
	}
}

// A name or id from the server cannot control a terminal or add a line.
func TestTextIsPrintable(t *testing.T) {
	var text Text
	text.Line("%s: %s", "FAIL", "a\nPASS\x1b[2J")
	text.Row("shop", "\u202etoy\u0007")
	var out strings.Builder
	check.Must(t, text.Write(&out))
	if want := "FAIL: a PASS\ufffd[2J\nshop  \ufffdtoy\ufffd\n"; out.String() != want {
		t.Errorf("text: got %q, want %q", &out, want)
	}
}
