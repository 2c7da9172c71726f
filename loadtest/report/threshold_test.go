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
		"latency_ms.p99>0.5":   "latency_ms.p99: is 1 ms, want at most 0.5 ms (--fail-if 'latency_ms.p99>0.5').",
		"latency_ms.p99>500us": "latency_ms.p99: is 1 ms, want at most 0.5 ms (--fail-if 'latency_ms.p99>500us').",
		"durable_per_s < 1e6":  "durable_per_s: is 54.1/s, want at least 1000000/s (--fail-if 'durable_per_s < 1e6').",
		"took_s<1":             "took_s: is 0 s, want at least 1 s",
		"answers.409>1":        "answers.409: is 2, want at most 1 (",
		"answers.503>0":        "",
		"latency_ms.p99>1":     "",
		"latency_ms.p99>1s":    "",
		"durable_per_s<54.1":   "",
		"oversold>0":           "",
		"history>0":            "",

		"answers_by_code.409 sold_out<2": "answers_by_code.409 sold_out: is 1, want at least 2",
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

// A figure that was not measured, and a promise that was not judged, are gaps.
func TestThresholdWithoutFigure(t *testing.T) {
	t.Parallel()
	for condition, bend := range map[string]func(*judge.Evidence){
		"restore_ms.p99>1": func(*judge.Evidence) {},
		"pay_ms.p50>1":     func(*judge.Evidence) {},
		"changes<1":        func(e *judge.Evidence) { e.Feed = nil },
		"changes>9":        func(e *judge.Evidence) { e.Feed = &judge.Feed{Unread: "away"} },
		"over_limit>0":     func(e *judge.Evidence) { e.Lacks = []judge.Feature{judge.Limit} },
		"available>0":      func(e *judge.Evidence) { e.Lacks = []judge.Feature{judge.Auditing} },
		"durable_per_s<1":  func(e *judge.Evidence) { e.Unread = "away" },
	} {
		threshold, err := ParseThreshold(condition)
		check.Must(t, err)
		rep := dayReport(bend)
		rep.FailIf, rep.ReleaseTime, rep.Gaps = []Threshold{threshold}, Quantiles{}, nil
		rep.applyThresholds()
		if rep.ExitCode() != judge.ExitUnjudged || len(rep.Gaps) != 1 || rep.Gaps[0].Checks[0] != threshold.field {
			t.Errorf("--fail-if %s without the figure: got exit code %d and gaps %v, want a gap", condition, rep.ExitCode(), rep.Gaps)
		}
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
		"answers.sold_out>0":   "is no figure",
		"latency_ms.p99>=10ms": "is no limit",
	} {
		if _, err := ParseThreshold(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %s", condition, err, want)
		}
	}
}
