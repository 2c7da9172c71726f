package loadtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// check is one line of the verdict: a count that has to be 0.
type check struct {
	Name, Meaning string
	Count         int
	Open          bool // a gap leaves it undecided
}

// checks lists every promise with its count, in the order of the verdict.
func (rep *Report) checks() []check {
	unsettled := 0
	for _, v := range rep.Violations {
		if v.Name == Unsettled {
			unsettled = 1
		}
	}
	return []check{
		{Oversold, "units promised or stored beyond the total", rep.Oversold, rep.open(Oversold)},
		{Undersold, "units that fresh buyers could not get", rep.Undersold, rep.open(Undersold)},
		{Lost, "accepted orders without their row", rep.Lost, rep.open(Lost)},
		{Unannounced, "rows whose client was refused", rep.Unannounced, rep.open(Unannounced)},
		{Duplicates, "keys with two orders", rep.Duplicates, rep.open(Duplicates)},
		{OverLimit, "units beyond a buyer's limit", rep.OverLimit, rep.open(OverLimit)},
		{Drift, "units the audit cannot account for", rep.Drift, rep.open(Drift)},
		{Unsettled, "audits that did not come to rest", unsettled, rep.open(Unsettled)},
		{WrongAnswer, "answers outside of the contract", rep.WrongAnswers, rep.open(WrongAnswer)},
		{History, fmt.Sprintf("answers that no order of the %d operations explains", rep.Operations), rep.Inexplicable, rep.Undecided || rep.open(History)},
	}
}

// open says whether a gap leaves the check undecided.
func (rep *Report) open(name string) bool {
	return slices.ContainsFunc(rep.Gaps, func(g Gap) bool { return slices.Contains(g.Checks, name) })
}

// summary is the verdict in one sentence.
func (rep *Report) summary() string {
	what := fmt.Sprintf("%s wanted %s in %s: ", plural(rep.Buyers, "buyer"), plural(rep.Total, "unit"), plural(rep.Attempts, "order"))
	switch rep.ExitCode() {
	case ExitPass:
		return what + "every promise was kept."
	case ExitViolation:
		return what + plural(len(rep.Violations), "promise") + " broken."
	}
	return what + "no promise was seen broken, but not every one was put to the test."
}

// WriteText writes the report for people.
func (rep *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "VERDICT: %s\n  %s\n", rep.Word(), rep.summary())
	for _, v := range rep.Violations {
		fmt.Fprintf(&b, "  %s: %s\n", v.Name, v.Detail)
	}
	for _, s := range rep.Gaps {
		fmt.Fprintf(&b, "  could not judge %s\n", s)
	}
	for _, s := range rep.Unexercised {
		fmt.Fprintf(&b, "  never exercised: %s\n", s)
	}
	if rep.Interrupted {
		b.WriteString("  interrupted: the run was stopped early; this judges what had happened by then\n")
	}
	for _, s := range rep.Notes {
		fmt.Fprintf(&b, "  note: %s\n", s)
	}
	b.WriteByte('\n')

	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, line := range rep.facts() {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], line[1])
	}
	fmt.Fprintln(t)
	for _, c := range rep.checks() {
		mark, count := "ok", strconv.Itoa(c.Count)
		switch {
		case c.Count != 0:
			mark = "BROKEN"
		case c.Open: // none found is not the same as none there
			mark, count = "?", "-"
		}
		fmt.Fprintf(t, "  %s\t%6s\t%s\t%s\n", c.Name, count, mark, c.Meaning)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("loadtest: write the text report: %w", err)
	}
	return nil
}

// facts are the figures around the verdict, as label and text.
func (rep *Report) facts() [][2]string {
	terms := fmt.Sprintf("%s: %s, at most %d per buyer", rep.SKU, plural(rep.Total, "unit"), rep.PerBuyerLimit)
	durable := "durable"
	if rep.ReserveOn == OnPayment {
		terms += ", taken on payment"
		durable = "paid"
	}
	facts := [][2]string{{"sale", terms}}
	if rep.Strategy+rep.Stores != "" {
		facts = append(facts, [2]string{"server", strings.Trim("strategy "+rep.Strategy+", stores "+rep.Stores, ", ")})
	}
	facts = append(facts, [][2]string{
		{"attack", fmt.Sprintf("%s by %s, %s, %d/s for %v asked, %.0f/s sent",
			plural(rep.Attempts, "order"), plural(rep.Buyers, "buyer"), rep.Shape, rep.Rate, rep.Duration, rep.OfferedPerS)},
		{"answers", rep.reasons(rep.Reasons)},
		{"orders", rep.rows()},
		{"units", fmt.Sprintf("total %d = available %d + held %d + pending %d + paid %d + restoring %d",
			rep.Total, rep.Available, rep.Held, rep.Pending, rep.Paid, rep.Restoring)},
		{"rates", fmt.Sprintf("%.0f accepted/s, %.0f %s/s", rep.AcceptedPerS, rep.DurablePerS, durable)},
		{"latency", fmt.Sprintf("p50 %s  p90 %s  p99 %s  max %s", human(rep.Latency.P50), human(rep.Latency.P90), human(rep.Latency.P99), human(rep.Latency.Max))},
	}...)
	if rep.Paying.N > 0 {
		facts = append(facts, [2]string{"payments", fmt.Sprintf("%s  (p50 %s  p99 %s)", rep.reasons(rep.Payments), human(rep.Paying.P50), human(rep.Paying.P99))})
	}
	if rep.Restore.N > 0 {
		facts = append(facts, [2]string{"restore", fmt.Sprintf("p50 %s  p99 %s  (%s)", human(rep.Restore.P50), human(rep.Restore.P99), plural(rep.Restore.N, "probe"))})
	}
	return facts
}

// reasons lists answers, the most frequent first.
func (rep *Report) reasons(counts map[string]int) string {
	var parts []string
	for _, reason := range rep.byCount(counts) {
		name := reason
		if name == "0" {
			name = "no answer"
		}
		parts = append(parts, fmt.Sprintf("%s: %d", name, counts[reason]))
	}
	return strings.Join(parts, ", ")
}

// rows lists stored orders by status.
func (rep *Report) rows() string {
	parts := []string{fmt.Sprintf("%d durable", rep.Durable)}
	for _, s := range []string{Pending, Paid, Cancelled, Expired, Rejected} {
		if n := rep.Rows[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

// byCount orders a map's keys for people, the largest first, the same way
// every time.
func (rep *Report) byCount(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
}

// human is a duration to three digits or so.
func human(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", ms(d))
	}
	return fmt.Sprintf("%.1fms", ms(d))
}
