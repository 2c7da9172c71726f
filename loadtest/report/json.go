package report

import (
	"io"

	"flashsale/loadtest/judge"
)

// document is the report for machines. Its fields and their order are fixed.
// Pass is true for exit code 0 only.
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

	// A pass has only a history here, if any: the search for it took too long.
	NotJudged []judge.Gap `json:"not_judged"` // never null
	LateMS    struct {    // how late the load test sent its orders
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"late_ms"`
	LatencyTrusted bool   `json:"latency_trusted"` // false: they were sent too late for that
	Command        string `json:"command"`         // this and the next: empty if not known
	Program        string `json:"program"`
	Versions       string `json:"store_versions"` // empty: the server does not tell
	Seed           int64  `json:"seed"`
	Cores          int    `json:"cores"` // of the machine that attacked
}

// WriteJSON writes the report as one JSON object on one line. Units: pending
// to restoring, oversold, undersold, over_limit and drift; orders: durable and
// lost; milliseconds where the name says so.
func (rep *Report) WriteJSON(w io.Writer) error { return JSON(w, rep.document()) }

func (rep *Report) document() document {
	d := document{
		Pass: rep.ExitCode() == judge.ExitPass, SKU: rep.SKU, Total: rep.Total, Strategy: rep.Strategy, Stores: rep.Stores,
		Attempts: rep.Attempts, Answers: rep.Answers, Counts: rep.Counts,
		AcceptedPerS: Round(rep.AcceptedPerS, 1), DurablePerS: Round(rep.DurablePerS, 1),
		Violations: append([]judge.Violation{}, rep.Violations...),
		NotJudged:  append([]judge.Gap{}, rep.NotJudged()...), LatencyTrusted: !rep.Doubted(),
		Command: rep.Command, Program: rep.Program, Versions: rep.Versions, Seed: rep.Seed, Cores: rep.Cores,
	}
	d.LatencyMS.P50, d.LatencyMS.P90 = Milliseconds(rep.Latency.P50), Milliseconds(rep.Latency.P90)
	d.LatencyMS.P99, d.LatencyMS.Max = Milliseconds(rep.Latency.P99), Milliseconds(rep.Latency.Max)
	d.RestoreMS.P50, d.RestoreMS.P99 = Milliseconds(rep.Restore.P50), Milliseconds(rep.Restore.P99)
	d.LateMS.P50, d.LateMS.P99, d.LateMS.Max = Milliseconds(rep.Lateness.P50), Milliseconds(rep.Lateness.P99), Milliseconds(rep.Lateness.Max)
	return d
}
