package report

import (
	"io"
	"time"

	"flashsale/loadtest/judge"
)

// document is the JSON report. Its fields and their order are fixed. A figure is null if the run did
// not measure or judge it. The table in the README of the load test contains the unit of each field.
type document struct {
	Pass     bool           `json:"pass"` // true only for exit code 0
	SKU      string         `json:"sku"`
	Total    int            `json:"total"`
	Strategy string         `json:"strategy"`
	Stores   string         `json:"stores"`
	Attempts int            `json:"attempts"`
	Answers  map[string]int `json:"answers"`
	Reasons  map[string]int `json:"answers_by_code"`
	counts
	AcceptedPerS float64            `json:"accepted_per_s"`
	DurablePerS  *float64           `json:"durable_per_s"`
	LatencyMS    map[string]float64 `json:"latency_ms"`
	RestoreMS    map[string]float64 `json:"restore_ms"`
	Violations   []judge.Violation  `json:"violations"` // never null

	// In a pass, the only possible gaps are the history, if its search took too long, and a
	// missing feed.
	NotJudged      []judge.Gap        `json:"not_judged"`      // never null
	LateMS         map[string]float64 `json:"late_ms"`         // delay between the time an order was due and the time it was sent
	LatencyTrusted bool               `json:"latency_trusted"` // false if the orders were sent too late
	Command        string             `json:"command"`         // empty if unknown
	Program        string             `json:"program"`         // empty if unknown
	Versions       string             `json:"store_versions"`  // empty if unknown
	Seed           int64              `json:"seed"`
	Cores          int                `json:"cores"` // cores of the load test's machine

	Shop         *judge.About `json:"shop"`           // null for this project's service
	Inapplicable []string     `json:"not_applicable"` // checks that do not apply to the shop; never null
	Serial       bool         `json:"serial"`         // one call at a time
	Control      string       `json:"control"`        // result of the control of the shop; empty if there was none

	Verdict string    `json:"verdict"` // PASS, FAIL or NOT JUDGED
	Target  string    `json:"target"`  // base URL of the server
	Started time.Time `json:"started"`
	Rate    int       `json:"rate"` // orders per second that were asked for; 0 if an order waits for the end of another

	Summary     string             `json:"summary"`
	Interrupted bool               `json:"interrupted"`
	Buyers      int                `json:"buyers"`
	SentPerS    float64            `json:"sent_per_s"`
	Rows        map[string]int     `json:"orders_by_status"`
	Later       *int               `json:"later_orders"`
	Payments    map[string]int     `json:"payments_by_code"`
	PayMS       map[string]float64 `json:"pay_ms"`
	SoldOutS    *float64           `json:"sold_out_after_s"`
	TookS       float64            `json:"took_s"`
}

// counts contains the figures of the verdict.
type counts struct {
	Durable       *int `json:"durable"`
	Pending       *int `json:"pending"`
	Paid          *int `json:"paid"`
	Cancelled     *int `json:"cancelled"`
	Expired       *int `json:"expired"`
	Rejected      *int `json:"rejected"`
	Available     *int `json:"available"`
	Queued        *int `json:"queued"`
	Restoring     *int `json:"restoring"`
	Oversold      *int `json:"oversold"`
	Undersold     *int `json:"undersold"`
	Lost          *int `json:"lost"`
	Unannounced   *int `json:"unannounced"`
	Duplicates    *int `json:"duplicates"`
	OverLimit     *int `json:"over_limit"`
	Drift         *int `json:"drift"`
	Unsettled     *int `json:"unsettled"`
	WrongAnswer   *int `json:"wrong_answer"`
	History       *int `json:"history"`
	Changes       *int `json:"changes"`
	Untold        *int `json:"untold"`
	Backwards     *int `json:"backwards"`
	Invented      *int `json:"invented"`
	VisitorOrders *int `json:"visitor_orders"`
	VisitorUnits  *int `json:"visitor_units"`
}

// inMS returns the quantiles in milliseconds, or nil if there were no durations.
func (q Quantiles) inMS() map[string]float64 {
	if q.N == 0 {
		return nil
	}
	return map[string]float64{"p50": Milliseconds(q.P50), "p90": Milliseconds(q.P90), "p99": Milliseconds(q.P99), "max": Milliseconds(q.Max)}
}

// WriteJSON writes the report as one JSON object.
func (rep *Report) WriteJSON(w io.Writer) error { return JSON(w, rep.document()) }

func (rep *Report) document() document {
	d := document{
		Pass: rep.ExitCode() == judge.ExitPass, SKU: rep.SKU, Total: rep.Total, Strategy: rep.Strategy, Stores: rep.Stores,
		Attempts: rep.Attempts, Answers: rep.Answers, Reasons: rep.Reasons, AcceptedPerS: Round(rep.AcceptedPerS, 1),
		LatencyMS: Quantiles{N: rep.Attempts, P50: rep.Latency.P50, P90: rep.Latency.P90, P99: rep.Latency.P99, Max: rep.Latency.Max}.inMS(),
		RestoreMS: rep.ReleaseTime.inMS(), LateMS: rep.SendDelay.inMS(), Violations: append([]judge.Violation{}, rep.Violations...),
		NotJudged: append([]judge.Gap{}, rep.NotJudged()...), LatencyTrusted: !rep.LatencyUntrusted(),
		Command: rep.Command, Program: rep.Program, Versions: rep.Versions, Seed: rep.Seed, Cores: rep.Cores,
		Shop: rep.Shop, Inapplicable: append([]string{}, rep.Inapplicable...), Serial: rep.Serial, Control: rep.Control,
		Verdict: rep.Word(), Target: rep.Target, Started: rep.Started.UTC().Truncate(time.Millisecond), Rate: rep.Rate,
		Summary: rep.Summary(), Interrupted: rep.Interrupted, Buyers: rep.Buyers, SentPerS: Round(rep.OfferedPerS, 1),
		Payments: rep.Payments, PayMS: rep.Paying.inMS(), TookS: Round(rep.Took.Seconds(), 1),
	}
	if after, ok := rep.soldOutAfter(); ok {
		d.SoldOutS = new(Round(after.Seconds(), 3))
	}
	judged := map[string]*int{}
	for _, p := range rep.Checks() {
		if p.Judged() {
			judged[p.Name] = &p.Count
		}
	}
	d.counts = counts{
		Oversold: judged[judge.Oversold], Undersold: judged[judge.Undersold], Lost: judged[judge.Lost], Unannounced: judged[judge.Unannounced],
		Duplicates: judged[judge.Duplicates], OverLimit: judged[judge.OverLimit], Drift: judged[judge.Drift], Unsettled: judged[judge.Unsettled],
		WrongAnswer: judged[judge.WrongAnswer], History: judged[judge.History],
		Untold: judged[judge.Untold], Backwards: judged[judge.Backwards], Invented: judged[judge.Invented],
	}
	n := rep.Counts
	if rep.Evidence.Unread == "" {
		d.Durable, d.Pending, d.Paid, d.Cancelled, d.Expired, d.Rejected = &n.Durable, &n.Pending, &n.Paid, &n.Cancelled, &n.Expired, &n.Rejected
		d.VisitorOrders, d.VisitorUnits, d.Rows, d.Later, d.DurablePerS = &n.VisitorOrders, &n.VisitorUnits, rep.Rows, &rep.Later, new(Round(rep.DurablePerS, 1))
		if !rep.hasNoAudit() {
			d.Available, d.Queued, d.Restoring = &n.Available, &n.Queued, &n.Restoring
		}
	}
	if feed := rep.Evidence.Feed; !rep.NoFeed && (feed == nil || feed.Unread == "") {
		d.Changes = &n.Changes
	}
	return d
}
