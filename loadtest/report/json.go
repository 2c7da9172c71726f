package report

import (
	"io"
	"time"

	"flashsale/loadtest/judge"
)

// document is the JSON report. Its fields and their order are fixed. Pass is true only for exit
// code 0.
type document struct {
	Pass     bool           `json:"pass"`
	SKU      string         `json:"sku"`
	Total    int            `json:"total"`
	Strategy string         `json:"strategy"`
	Stores   string         `json:"stores"`
	Attempts int            `json:"attempts"`
	Answers  map[string]int `json:"answers"`
	judge.Counts
	AcceptedPerS float64 `json:"accepted_per_s"`
	DurablePerS  float64 `json:"durable_per_s"`
	LatencyMS    struct {
		P50 float64 `json:"p50"`
		P90 float64 `json:"p90"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"latency_ms"`
	RestoreMS struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"restore_ms"`
	Violations []judge.Violation `json:"violations"` // never null

	// In a pass, the only possible gaps are the history, if its search took too long, and a
	// missing feed.
	NotJudged []judge.Gap `json:"not_judged"` // never null
	LateMS    struct {    // delay between the time an order was due and the time it was sent
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"late_ms"`
	LatencyTrusted bool   `json:"latency_trusted"` // false if the orders were sent too late
	Command        string `json:"command"`         // empty if unknown
	Program        string `json:"program"`         // empty if unknown
	Versions       string `json:"store_versions"`  // empty if unknown
	Seed           int64  `json:"seed"`
	Cores          int    `json:"cores"` // cores of the load test's machine

	Shop         *judge.About `json:"shop"`           // null for this project's service
	Inapplicable []string     `json:"not_applicable"` // checks that do not apply to the shop; never null
	Serial       bool         `json:"serial"`         // one call at a time
	Control      string       `json:"control"`        // result of the control of the shop; empty if there was none

	Verdict string    `json:"verdict"` // PASS, FAIL or NOT JUDGED
	Target  string    `json:"target"`  // base URL of the server
	Started time.Time `json:"started"`
	Rate    int       `json:"rate"` // orders per second that were asked for; 0 if an order waits for the end of another
}

// WriteJSON writes the report as one JSON object on one line. The fields pending to restoring,
// oversold, undersold, over_limit and drift count units; durable and lost count orders; fields
// whose name contains "ms" are in milliseconds.
func (rep *Report) WriteJSON(w io.Writer) error { return JSON(w, rep.document()) }

func (rep *Report) document() document {
	d := document{
		Pass: rep.ExitCode() == judge.ExitPass, SKU: rep.SKU, Total: rep.Total, Strategy: rep.Strategy, Stores: rep.Stores,
		Attempts: rep.Attempts, Answers: rep.Answers, Counts: rep.Counts,
		AcceptedPerS: Round(rep.AcceptedPerS, 1), DurablePerS: Round(rep.DurablePerS, 1),
		Violations: append([]judge.Violation{}, rep.Violations...),
		NotJudged:  append([]judge.Gap{}, rep.NotJudged()...), LatencyTrusted: !rep.LatencyUntrusted(),
		Command: rep.Command, Program: rep.Program, Versions: rep.Versions, Seed: rep.Seed, Cores: rep.Cores,
		Shop: rep.Shop, Inapplicable: append([]string{}, rep.Inapplicable...), Serial: rep.Serial, Control: rep.Control,
		Verdict: rep.Word(), Target: rep.Target, Started: rep.Started.UTC().Truncate(time.Millisecond), Rate: rep.Rate,
	}
	d.LatencyMS.P50, d.LatencyMS.P90 = Milliseconds(rep.Latency.P50), Milliseconds(rep.Latency.P90)
	d.LatencyMS.P99, d.LatencyMS.Max = Milliseconds(rep.Latency.P99), Milliseconds(rep.Latency.Max)
	d.RestoreMS.P50, d.RestoreMS.P99 = Milliseconds(rep.ReleaseTime.P50), Milliseconds(rep.ReleaseTime.P99)
	d.LateMS.P50, d.LateMS.P99, d.LateMS.Max = Milliseconds(rep.SendDelay.P50), Milliseconds(rep.SendDelay.P99), Milliseconds(rep.SendDelay.Max)
	return d
}
