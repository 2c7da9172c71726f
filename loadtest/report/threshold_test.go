package report

import (
	"strings"
	"testing"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// A condition that is true of the figures fails the run. A broken promise stays a broken promise.
func TestThresholds(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"latency_ms.p99>0.5":   "latency_ms.p99: is 1, and the run fails if latency_ms.p99>0.5.",
		"latency_ms.p99>500us": "latency_ms.p99: is 1, and the run fails if latency_ms.p99>500us.",
		"durable_per_s < 1e6":  "durable_per_s: is 54.1, and the run fails if durable_per_s < 1e6.",
		"latency_ms.p99>1":     "",
		"latency_ms.p99>1s":    "",
		"durable_per_s<54.1":   "",
		"oversold>0":           "",
	} {
		threshold, err := ParseThreshold(condition)
		check.Must(t, err)
		rep := dayReport(func(*judge.Evidence) {})
		rep.FailIf = []Threshold{threshold}
		rep.applyThresholds()
		var text strings.Builder
		check.Must(t, rep.WriteText(&text))
		if want == "" {
			if rep.ExitCode() != judge.ExitPass {
				t.Errorf("%s: got exit code %d, want a pass", condition, rep.ExitCode())
			}
		} else if rep.ExitCode() != judge.ExitViolation || !strings.Contains(text.String(), want) || !strings.Contains(text.String(), "0 promises broken, and 1 threshold missed.") {
			t.Errorf("%s: got exit code %d and\n%s\nwant 1 and %q", condition, rep.ExitCode(), &text, want)
		}
	}
}

// A figure that was not measured is a gap.
func TestThresholdWithoutFigure(t *testing.T) {
	t.Parallel()
	threshold, err := ParseThreshold("restore_ms.p99>1")
	check.Must(t, err)
	rep := dayReport(func(*judge.Evidence) {})
	rep.FailIf, rep.ReleaseTime = []Threshold{threshold}, Quantiles{}
	rep.applyThresholds()
	if rep.ExitCode() != judge.ExitUnjudged || rep.Gaps[0].Checks[0] != "restore_ms.p99" {
		t.Errorf("threshold of a figure that was not measured: got exit code %d and gaps %v, want a gap", rep.ExitCode(), rep.Gaps)
	}
}

func TestBadThresholds(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"latency_ms.p99":       "has no < or >",
		"latency.p99>1":        "is no figure of the JSON report, want one of accepted_per_s, ",
		"latency_ms.p99>fast":  "is no limit for latency_ms.p99",
		"durable_per_s<5ms":    "is no limit for durable_per_s",
		"latency_ms.p99>NaN":   "is no limit",
		"latency_ms.p99>-Inf":  "is no limit",
		"":                     "has no < or >",
		"violations>0":         "is no figure",
		"latency_ms.p99>=10ms": "is no limit",
	} {
		if _, err := ParseThreshold(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %s", condition, err, want)
		}
	}
}
