package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// document is the report for machines. Its fields and their order are fixed;
// pass is true for exit code 0 only.
type document struct {
	Pass         bool           `json:"pass"`
	SKU          string         `json:"sku"`
	Total        int            `json:"total"`
	Strategy     string         `json:"strategy"`
	Stores       string         `json:"stores"`
	Attempts     int            `json:"attempts"`
	Answers      map[string]int `json:"answers"`
	Durable      int            `json:"durable"`
	Pending      int            `json:"pending"`
	Paid         int            `json:"paid"`
	Cancelled    int            `json:"cancelled"`
	Expired      int            `json:"expired"`
	Rejected     int            `json:"rejected"`
	Available    int            `json:"available"`
	Held         int            `json:"held"`
	Restoring    int            `json:"restoring"`
	Oversold     int            `json:"oversold"`
	Undersold    int            `json:"undersold"`
	Lost         int            `json:"lost"`
	Unannounced  int            `json:"unannounced"`
	Duplicates   int            `json:"duplicates"`
	OverLimit    int            `json:"over_limit"`
	Drift        int            `json:"drift"`
	AcceptedPerS float64        `json:"accepted_per_s"`
	DurablePerS  float64        `json:"durable_per_s"`
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
	Violations []namedDetail `json:"violations"` // never null
}

type namedDetail struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

// WriteJSON writes the report as one JSON object on one line. Units: pending
// to restoring, oversold, undersold, over_limit and drift; orders: durable and
// lost; milliseconds where the name says so.
func (rep *Report) WriteJSON(w io.Writer) error { return writeJSON(w, rep.document()) }

func (rep *Report) document() document {
	d := document{
		Pass: rep.ExitCode() == ExitPass, SKU: rep.SKU, Total: rep.Total, Strategy: rep.Strategy, Stores: rep.Stores,
		Attempts: rep.Attempts, Answers: rep.Answers, Durable: rep.Durable,
		Pending: rep.Pending, Paid: rep.Paid, Cancelled: rep.Cancelled, Expired: rep.Expired, Rejected: rep.Rejected,
		Available: rep.Available, Held: rep.Held, Restoring: rep.Restoring,
		Oversold: rep.Oversold, Undersold: rep.Undersold, Lost: rep.Lost, Unannounced: rep.Unannounced,
		Duplicates: rep.Duplicates, OverLimit: rep.OverLimit, Drift: rep.Drift,
		AcceptedPerS: round(rep.AcceptedPerS, 1), DurablePerS: round(rep.DurablePerS, 1),
		Violations: []namedDetail{},
	}
	d.LatencyMS.P50, d.LatencyMS.P90 = ms(rep.Latency.P50), ms(rep.Latency.P90)
	d.LatencyMS.P99, d.LatencyMS.Max = ms(rep.Latency.P99), ms(rep.Latency.Max)
	d.RestoreMS.P50, d.RestoreMS.P99 = ms(rep.Restore.P50), ms(rep.Restore.P99)
	for _, v := range rep.Violations {
		d.Violations = append(d.Violations, namedDetail{v.Name, v.Detail})
	}
	return d
}

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false) // the details are prose, for a terminal as well
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("loadtest: write the JSON report: %w", err)
	}
	return nil
}

// ms is milliseconds to the microsecond.
func ms(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 3) }

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
