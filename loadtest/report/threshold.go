package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale/loadtest/judge"
)

// A Threshold fails a run whose figure is above or below a limit.
type Threshold struct {
	text  string // text that ParseThreshold received
	field string // field of the JSON report, such as latency_ms.p99
	above bool   // the run fails above the limit; otherwise below it
	limit float64
}

// ParseThreshold parses a text such as "latency_ms.p99>250", "latency_ms.p99>250ms" or
// "durable_per_s<500". The run fails if the text is true of its JSON report. A limit with a unit
// of time is for a field in milliseconds.
func ParseThreshold(text string) (Threshold, error) {
	i := strings.IndexAny(text, "<>")
	if i < 0 {
		return Threshold{}, fmt.Errorf("%q has no < or >, want a field of the JSON report, < or >, and a number or duration", text)
	}
	t := Threshold{text: text, field: strings.TrimSpace(text[:i]), above: text[i] == '>'}
	one := Quantiles{N: 1}
	fields := (&Report{Attempts: 1, Stock: make([]StockPoint, 1), ReleaseTime: one, SendDelay: one, Paying: one}).figures()
	if _, ok := fields[t.field]; !ok && !t.counts() {
		return Threshold{}, fmt.Errorf("%q is no figure of the JSON report, want one of %s", t.field, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	limit := strings.TrimSpace(text[i+1:])
	var err error
	if t.limit, err = strconv.ParseFloat(limit, 64); err == nil && !math.IsNaN(t.limit) && !math.IsInf(t.limit, 0) {
		return t, nil
	}
	d, err := time.ParseDuration(limit)
	if err != nil || !strings.Contains(t.field, "_ms.") {
		return Threshold{}, fmt.Errorf("%q is no limit for %s, want a number, or a duration for a field in milliseconds", limit, t.field)
	}
	t.limit = Milliseconds(d)
	return t, nil
}

// figures returns the measured numbers of the JSON report by their names. The name of a nested
// field has a dot.
func (rep *Report) figures() map[string]float64 {
	var fields map[string]any
	text, err := json.Marshal(rep.document())
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(err) // a document has no field that cannot be encoded
	}
	figures := map[string]float64{}
	var add func(prefix string, fields map[string]any)
	add = func(prefix string, fields map[string]any) {
		for name, value := range fields {
			switch value := value.(type) {
			case float64:
				figures[prefix+name] = value
			case map[string]any:
				add(prefix+name+".", value)
			}
		}
	}
	add("", fields)
	return figures
}

// counts reports whether the field is the number of one kind of answers, which may be 0.
func (t Threshold) counts() bool { return answers.MatchString(t.field) }

var answers = regexp.MustCompile(`^answers(_by_code)?\.\d+( [a-z_]+)?$`)

// format returns the number with the unit of the threshold's field.
func (t Threshold) format(v float64) string {
	number := strconv.FormatFloat(v, 'f', -1, 64)
	switch {
	case strings.Contains(t.field, "_ms."):
		return number + " ms"
	case strings.HasSuffix(t.field, "_per_s"):
		return number + "/s"
	case strings.HasSuffix(t.field, "_s"):
		return number + " s"
	}
	return number
}

// applyThresholds adds a violation for each threshold that the figures exceed, and a gap if the
// figure was not measured or not judged.
func (rep *Report) applyThresholds() {
	figures := rep.figures()
	for _, t := range rep.FailIf {
		got, measured := figures[t.field]
		if !measured && !t.counts() {
			rep.Gaps = append(rep.Gaps, judge.Gap{
				Checks: []string{t.field}, Why: "null in the JSON report, because the run did not measure or judge it",
				Do: "run an attack that measures it, or leave out --fail-if '" + t.text + "'",
			})
			continue
		}
		if t.above && got > t.limit || !t.above && got < t.limit {
			want := map[bool]string{true: "at most ", false: "at least "}[t.above]
			rep.Missed++
			rep.Violations = append(rep.Violations, judge.Violation{
				Name: t.field, Count: 1, Detail: fmt.Sprintf("is %s, want %s (--fail-if '%s').", t.format(got), want+t.format(t.limit), t.text),
			})
		}
	}
}
