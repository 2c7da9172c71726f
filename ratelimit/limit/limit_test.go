package limit

import (
	"encoding"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"flashsale/loadtest/servers/servertest/check"
)

var (
	_ encoding.TextUnmarshaler = (*Limit)(nil)
	_ encoding.TextMarshaler   = Limit{}
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text      string
		burst     int64
		window    time.Duration
		canonical string
	}{
		{"5/s:10", 10, 2 * time.Second, "5/s:10"},
		{"5/s", 5, time.Second, "5/s:5"},
		{"0.5/s:3", 3, 6 * time.Second, "0.5/s:3"},
		{"0.5/s", 1, 2 * time.Second, "0.5/s:1"},
		{"100/ms:50", 50, 500 * time.Microsecond, "100000/s:50"},
		{"60/m:1", 1, time.Second, "1/s:1"},
		{"100/m:20", 20, 12 * time.Second, "100/m:20"},
		{"1/h:24", 24, 24 * time.Hour, "1/h:24"},
		{"1/7s:2", 2, 14 * time.Second, "1/7s:2"},
		{"1000000/h:1", 1, 3600 * time.Microsecond, "1000000/h:1"},
		{"3/s:1", 1, 333334 * time.Microsecond, "3/s:1"},
		{"0.0001/h:10", 10, 100_000 * time.Hour, "1/10000h0m0s:10"},
	} {
		l, err := Parse(c.text)
		if err != nil {
			t.Errorf("limit %s: got error %v, want none", c.text, err)
			continue
		}
		if l.Burst() != c.burst || l.Window() != c.window || l.String() != c.canonical || l.IsOff() {
			t.Errorf("limit %s: got burst %d, window %v, text %s, want %d, %v, %s",
				c.text, l.Burst(), l.Window(), l, c.burst, c.window, c.canonical)
		}
	}
	if l, err := Parse("off"); err != nil || !l.IsOff() || l != Off || l.String() != "off" || l.Window() != 0 {
		t.Errorf("limit off: got %+v, want Off", l)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "no time after the rate",
		"5":                        "no time after the rate",
		"OFF":                      "no time after the rate",
		"/s":                       `the rate "" is not a plain decimal number`,
		"-5/s":                     `the rate "-5" is not a plain decimal number`,
		"1e3/s":                    `the rate "1e3" is not a plain decimal number`,
		"1.2.3/s":                  `the rate "1.2.3" is not a plain decimal number`,
		"0/s":                      "the rate must be above 0",
		"0.0/s:5":                  "the rate must be above 0",
		"5/d":                      `the time "d" is not one of ms, s, m, h`,
		"5/":                       `the time "" is not one of ms, s, m, h`,
		"5/-1s":                    `the time "-1s" is not one of ms, s, m, h`,
		"5/10ns":                   "not a whole number of microseconds",
		"5/s:":                     `the burst "" is not a whole number`,
		"5/s:1.5":                  `the burst "1.5" is not a whole number`,
		"5/s:0":                    "the burst must be at least 1",
		"5/s:-1":                   "the burst must be at least 1",
		"5/s:1:2":                  `the burst "1:2" is not a whole number`,
		"1/h:9999999999":           "too large to count exactly",
		"9999999999999999999/s:1":  "too many digits",
		"0.000000000000000001/h:1": "too many digits",
		"9000000000000000000/s:1":  "too high to count",
	} {
		_, err := Parse(text)
		if !errors.Is(err, ErrBad) || !strings.Contains(err.Error(), want) {
			t.Errorf("bad limit %q: got error %v, want %q", text, err, want)
		}
	}
}

// The text of any limit is read back as the same limit, and a full bucket stays within
// the numbers that a double holds exactly.
func TestLimitReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := New(
			rapid.Int64Range(1, 1e6).Draw(t, "tokens"),
			time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "per"))*time.Microsecond,
			rapid.Int64Range(1, 1e5).Draw(t, "burst"))
		check.Must(t, err)
		parsed, err := Parse(l.String())
		if err != nil || parsed != l {
			t.Fatalf("limit %v: got %v, error %v after reading it back, want the same limit", l, parsed, err)
		}
		token, _ := l.Units()
		if full := l.Burst() * token; full/token != l.Burst() || full > maxLevel {
			t.Fatalf("full bucket of %v: got %d units, want at most %d", l, full, int64(maxLevel))
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"off", "5/s:10", "0.5/s", "1/7s:1", "1/h:9999999999", "/:", "5/s:١"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrBad) {
				t.Fatalf("bad limit %q: got error %v, want ErrBad", text, err)
			}
			return
		}
		if parsed, err := Parse(l.String()); err != nil || parsed != l {
			t.Fatalf("limit %q: %v: got %v, error %v after reading it back, want the same limit", text, l, parsed, err)
		}
	})
}
