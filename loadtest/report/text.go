package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"flashsale/loadtest/judge"
)

// A Promise is a line of the verdict. Count is the number of violations; 0 means that the promise
// was kept.
type Promise struct {
	Name, Meaning string
	Cause         string // usual cause of a violation
	Count         int
	Open          bool // the promise could not be judged
	NA            bool // the promise does not apply to the shop
}

// Checks returns all promises, in the order of the verdict.
func (rep *Report) Checks() []Promise {
	unsettled := 0
	if slices.ContainsFunc(rep.Violations, func(v judge.Violation) bool { return v.Name == judge.Unsettled }) {
		unsettled = 1
	}
	list := []Promise{
		{Name: judge.Oversold, Meaning: "units promised or stored beyond the total", Count: rep.Oversold, Cause: "two orders read the same stock before either of them took its units; check and take them in one atomic step"},
		{Name: judge.Undersold, Meaning: "units that fresh buyers could not get", Count: rep.Undersold, Cause: "the units of a cancelled, expired or failed order did not come back"},
		{Name: judge.Lost, Meaning: "accepted orders without their row", Count: rep.Lost, Cause: "the shop accepts an order before the order is durable"},
		{Name: judge.Unannounced, Meaning: "rows whose client was refused", Count: rep.Unannounced, Cause: "an order is stored although its client has received a refusal"},
		{Name: judge.Duplicates, Meaning: "keys with two orders", Count: rep.Duplicates, Cause: "the idempotency key is not checked in the transaction that stores the order"},
		{Name: judge.OverLimit, Meaning: "units beyond a buyer's limit", Count: rep.OverLimit, Cause: "the limit is checked before the order is stored, and not in the same atomic step"},
		{Name: judge.Drift, Meaning: "units the audit cannot account for", Count: rep.Drift, Cause: "the stock and the orders do not change together"},
		{Name: judge.Unsettled, Meaning: "audits that did not come to rest", Count: unsettled, Cause: "a background job still changes the sale"},
		{Name: judge.WrongAnswer, Meaning: "answers outside of the contract", Count: rep.WrongAnswers, Cause: "a status, header or body differs from the contract; the verdict has an example of each kind"},
		{Name: judge.History, Meaning: judge.Sprintf("answers that no order of the %d operations explains", rep.Operations), Count: rep.NotLinearizable, Cause: "for a moment, a unit is sold twice or a free unit is refused, although the sums are right in the end"},
		{Name: judge.Untold, Meaning: "rows whose state the feed did not end with", Count: rep.Untold, Cause: "the feed passes over changes that commit late"},
		{Name: judge.Backwards, Meaning: "reports of the feed that made an order or a number go back", Count: rep.Backwards, Cause: "the feed numbers changes in another order than they commit"},
		{Name: judge.Invented, Meaning: "orders in the feed without a row", Count: rep.Invented, Cause: "the feed reports a change before it has committed"},
	}
	open := rep.NotJudged()
	for i := range list {
		p := &list[i]
		p.NA = slices.Contains(rep.Inapplicable, p.Name)
		p.Open = slices.ContainsFunc(open, func(g judge.Gap) bool { return slices.Contains(g.Checks, p.Name) })
	}
	return list
}

// Result returns "ok", "BROKEN", "?" or "n/a". A promise with a violation is
// BROKEN, even if it was judged only in part.
func (p Promise) Result() string {
	switch {
	case p.NA:
		return "n/a"
	case p.Count != 0:
		return "BROKEN"
	case p.Open:
		return "?"
	}
	return "ok"
}

// Judged reports whether the promise is known to be kept or broken.
func (p Promise) Judged() bool { return p.Result() == "ok" || p.Result() == "BROKEN" }

// With returns the promises with one result.
func (rep *Report) With(result string) []Promise {
	return slices.DeleteFunc(rep.Checks(), func(p Promise) bool { return p.Result() != result })
}

// Broken returns the number of broken promises.
func (rep *Report) Broken() int { return len(rep.Violations) - rep.Missed }

// Summary returns the verdict as a sentence.
func (rep *Report) Summary() string {
	what := fmt.Sprintf("%s wanted %s in %s: ", judge.Plural(rep.Buyers, "buyer"), judge.Plural(rep.Total, "unit"), judge.Plural(rep.Attempts, "order"))
	broken := judge.Plural(rep.Broken(), "promise") + " broken"
	if rep.Missed > 0 {
		broken += ", and " + judge.Plural(rep.Missed, "threshold") + " missed"
	}
	if len(rep.Inapplicable) > 0 {
		judged := slices.DeleteFunc(rep.Checks(), func(p Promise) bool { return !p.Judged() })
		what += fmt.Sprintf("%d of %d promises judged, ", len(judged), len(rep.Checks()))
	}
	switch {
	case rep.ExitCode() != judge.ExitPass:
		return what + ending(rep.ExitCode(), broken+".")
	case rep.Undecided || len(rep.Inapplicable) > 0:
		return what + "every promise that was judged was kept."
	}
	return what + ending(rep.ExitCode(), "")
}

// ending returns the end of a summary. broken is the end for broken promises.
func ending(exitCode int, broken string) string {
	return [...]string{
		judge.ExitPass: "every promise was kept.", judge.ExitViolation: broken,
		judge.ExitUnjudged: "no violation was found, but some promises could not be judged.",
	}[exitCode]
}

// WriteText writes the report as text.
func (rep *Report) WriteText(w io.Writer) error {
	var t Text
	rep.addTo(&t, "VERDICT", rep.Facts())
	return t.Write(w)
}

// addTo adds the report to t.
func (rep *Report) addTo(t *Text, heading string, facts [][2]string) {
	t.Line("%s: %s\n  %s", heading, rep.Word(), rep.Summary())
	for _, v := range rep.Violations {
		t.Line("  %s: %s", v.Name, v.Detail)
	}
	for _, gap := range rep.NotJudged() {
		t.Line("  not judged: %s", gap.Advice())
	}
	if rep.Interrupted {
		t.Line("  interrupted: the run was stopped early; the verdict covers the run until then")
	}
	for _, s := range rep.Notes {
		t.Line("  note: %s", s)
	}
	if rep.LatencyUntrusted() {
		t.Line("  do not trust the latencies: this machine was too busy to send orders in time. The p99 of the delays is more than half of the p99 of the latencies")
	}
	t.Line("")
	for _, fact := range facts {
		t.Row("  "+fact[0], fact[1])
	}
	t.Line("")
	for _, c := range rep.Checks() {
		count := "-"
		if c.Judged() {
			count = judge.Sprintf("%d", c.Count)
		}
		t.Row("  "+c.Name, fmt.Sprintf("%6s", count), c.Result(), c.Meaning)
	}
}

// Facts returns labels and texts that describe the server and the load test.
func (c Config) Facts() [][2]string {
	or := func(text string) string { return cmp.Or(text, "unknown") }
	facts := c.shop()
	if c.Shop == nil {
		facts = [][2]string{{"server", fmt.Sprintf("strategy %s, stores %s, versions %s", or(c.Strategy), or(c.Stores), or(c.Versions))}}
	}
	return append(facts,
		[2]string{"target", or(c.Target)},
		[2]string{"program", fmt.Sprintf("%s, %s, seed %d", or(c.Program), judge.Plural(c.Cores, "core"), c.Seed)},
		[2]string{"command", or(c.Command)},
	)
}

// shop returns labels and texts of a shop that other people wrote.
func (c Config) shop() (facts [][2]string) {
	if c.Shop == nil {
		return nil
	}
	facts = append(facts, [2]string{"shop", c.Shop.String()})
	if len(c.Shop.Lacks) > 0 {
		facts = append(facts, [2]string{"lacks", judge.JoinFeatures(c.Shop.Lacks)})
	}
	if len(c.Shop.Emulates) > 0 {
		facts = append(facts, [2]string{"emulated", judge.JoinFeatures(c.Shop.Emulates) + ", by the adapter; these say nothing about the shop"})
	}
	control := cmp.Or(c.Control, "none; run with --serial --report DIR, then with --control DIR, to show that the adapter is right")
	if c.Serial {
		control = "this run sends one call at a time"
	}
	return append(facts, [2]string{"control", control})
}

// Facts returns labels and texts of the sale, the figures, the server and the load test.
func (rep *Report) Facts() [][2]string { return append(rep.facts(), rep.Config.Facts()...) }

// Durably returns the word for the orders that DurablePerS counts.
func (rep *Report) Durably() string {
	if rep.ReserveOn == judge.OnPayment {
		return "paid"
	}
	return "durable"
}

// PageFacts returns the Facts that no other section of the page shows.
func (rep *Report) PageFacts() [][2]string {
	return slices.DeleteFunc(rep.Facts(), func(f [2]string) bool { return slices.Contains([]string{"answers", "rates", "latency", "late"}, f[0]) })
}

// facts returns labels and texts of the sale and the figures.
func (rep *Report) facts() [][2]string {
	terms := judge.Sprintf("%s: %s", rep.SKU, judge.Plural(rep.Total, "unit"))
	if !slices.Contains(rep.Inapplicable, judge.OverLimit) {
		terms += judge.Sprintf(", at most %d per buyer", rep.UnitsPerBuyer)
	}
	if rep.ReserveOn == judge.OnPayment {
		terms += ", taken on payment"
	}
	orders, rates := rep.rows(), judge.Sprintf("%.0f accepted/s, %.0f %s/s", rep.AcceptedPerS, rep.DurablePerS, rep.Durably())
	units := judge.Sprintf("total %d = available %d + queued %d + pending %d + paid %d + restoring %d",
		rep.Total, rep.Available, rep.Queued, rep.Pending, rep.Paid, rep.Restoring)
	if rep.hasNoAudit() {
		units = judge.Sprintf("total %d, pending %d + paid %d", rep.Total, rep.Pending, rep.Paid)
	}
	if rep.Evidence.Unread != "" {
		orders, units, rates = "not read", "not read", judge.Sprintf("%.0f accepted/s", rep.AcceptedPerS)
	}
	facts := [][2]string{
		{"sale", terms},
		{"attack", judge.Sprintf("%s by %s, %s, %.0f/s sent",
			judge.Plural(rep.Attempts, "order"), judge.Plural(rep.Buyers, "buyer"), rep.Schedule, rep.OfferedPerS)},
		{"answers", reasons(rep.Reasons)},
		{"orders", orders},
		{"units", units},
		{"rates", rates},
		{"latency", fmt.Sprintf("p50 %s  p90 %s  p99 %s  max %s", Human(rep.Latency.P50), Human(rep.Latency.P90), Human(rep.Latency.P99), Human(rep.Latency.Max))},
	}
	if rep.SendDelay.N > 0 {
		facts = append(facts, [2]string{"late", fmt.Sprintf("orders were sent p50 %s  p99 %s  max %s after they were due: latencies %s", Human(rep.SendDelay.P50), Human(rep.SendDelay.P99), Human(rep.SendDelay.Max), rep.Trust())})
	}
	if rep.Paying.N > 0 {
		facts = append(facts, [2]string{"payments", fmt.Sprintf("%s  (p50 %s  p99 %s)", reasons(rep.Payments), Human(rep.Paying.P50), Human(rep.Paying.P99))})
	}
	if !rep.NoFeed {
		facts = append(facts, [2]string{"feed", judge.Plural(rep.Changes, "change") + " reported"})
	}
	if rep.ReleaseTime.N > 0 {
		facts = append(facts, [2]string{"restore", fmt.Sprintf("p50 %s  p99 %s  (%s)", Human(rep.ReleaseTime.P50), Human(rep.ReleaseTime.P99), judge.Plural(rep.ReleaseTime.N, "probe"))})
	}
	return facts
}

// hasNoAudit reports whether the shop has no audit. The available units are then derived from the orders.
func (rep *Report) hasNoAudit() bool { return slices.Contains(rep.Inapplicable, judge.Drift) }

// reasons formats the counts of answers, the most frequent first.
func reasons(counts map[string]int) string {
	var parts []string
	for _, reason := range ByCount(counts) {
		parts = append(parts, judge.Sprintf("%s: %d", inWords(reason), counts[reason]))
	}
	return strings.Join(parts, ", ")
}

// inWords returns the text of a reason. The reason "0" stands for no answer.
func inWords(reason string) string {
	if reason == "0" {
		return "no answer"
	}
	return reason
}

// rows formats the numbers of stored orders by status.
func (rep *Report) rows() string {
	parts := []string{judge.Sprintf("%d durable", rep.Durable)}
	if rep.Later > 0 {
		parts[0] += judge.Sprintf(" (%d of them by release probes and fresh buyers)", rep.Later)
	}
	for _, s := range []string{judge.Pending, judge.Paid, judge.Cancelled, judge.Expired, judge.Rejected} {
		if n := rep.Rows[s]; n > 0 {
			parts = append(parts, judge.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}
