package report

import (
	"fmt"
	"slices"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/judge"
)

// Config describes the load test and the server of a report. Empty fields are unknown.
type Config struct {
	Name             string // the sale's name, as buyers see it
	Strategy, Stores string // the server's strategy and stores
	Versions         string // versions of the stores
	Command, Program string // command line and revision of the load test
	Seed             int64
	Cores            int    // cores of the load test's machine
	Scenario         string // name of the scenario, if any
	Schedule         string // description of the requested attack
	Burst            bool   // the attack ends in a burst
	Rate             int    // requests per second that were asked for; 0 if a request waits for the end of another
	Target           string // base URL of the server
	Serial           bool   // one call at a time
	FailIf           []Threshold

	Shop    *judge.About // the shop that other people wrote; nil for this project's service
	Control string       // result of the control of Shop; empty if there was none
}

// Observations contains the observations of a run that are not evidence for the judge.
type Observations struct {
	Started      time.Time
	Took         time.Duration // duration of the whole run
	Interrupted  bool
	ReleaseTimes []time.Duration // times from the answer to a cancellation until the audit shows the units
	SendDelays   []time.Duration // delays between the time an order was due and the time it was sent
	Notes        []string
}

// StockPoint is the number of available units at one moment.
type StockPoint struct {
	At        time.Time
	Available int
}

// Report contains the verdict on one sale and the figures of the attack.
type Report struct {
	judge.Verdict
	Config
	Observations

	SKU           string
	UnitsPerBuyer int
	ReserveOn     string // judge.OnOrder or judge.OnPayment; empty for OnOrder
	Missed        int    // number of violations that are thresholds of FailIf, and no broken promises

	Attempts     int                   // requests POST /v1/orders of the attack
	Buyers       int                   // buyers that sent the attempts
	Answers      map[string]int        // answers to attempts by status; "0" is no answer
	Reasons      map[string]int        // answers to attempts by status and code: "409 sold_out"
	Rows         map[string]int        // stored orders by status
	Later        int                   // stored orders of release probes and fresh buyers, who come after the attack
	OfferedPerS  float64               // attempts per second while the attack was sending
	AcceptedPerS float64               // 2xx answers per second, from the first request to the last acceptance
	DurablePerS  float64               // stored orders per second in the same time; OnPayment: paid orders, from the first payment
	Latency      vegeta.LatencyMetrics // latency of the attempts
	Payments     map[string]int        // answers to payments of the attack's orders, by status and code; nil unless OnPayment
	Paying       Quantiles             // latency of the payments
	ReleaseTime  Quantiles             // quantiles of ReleaseTimes
	SendDelay    Quantiles             // quantiles of SendDelays

	Stock    []StockPoint  // the stock during the attack, as the answers show it
	first    time.Time     // time of the attack's first request
	span     time.Duration // time from first to the last answer of the attack
	Evidence judge.Evidence
}

// New judges the evidence and computes the figures.
func New(c Config, e judge.Evidence, seen Observations) *Report {
	rep := &Report{
		Verdict: judge.Judge(e), Config: c, Observations: seen, SKU: e.SKU, UnitsPerBuyer: e.UnitsPerBuyer, ReserveOn: e.ReserveOn,
		ReleaseTime: QuantilesOf(seen.ReleaseTimes), SendDelay: QuantilesOf(seen.SendDelays),
		Reasons: map[string]int{}, Rows: map[string]int{},
		Evidence: e,
	}
	// Only requests of the attack count. Later requests are sent one by one and would improve
	// every figure.
	buyers := map[string]bool{}
	var m vegeta.Metrics
	for _, q := range e.Requests {
		if q.Attack {
			m.Add(&vegeta.Result{Timestamp: q.Sent, Latency: q.Latency, Code: uint16(q.Status)})
			buyers[q.Buyer] = true
			rep.Reasons[q.Reason()]++
		}
	}
	m.Close()
	rep.Buyers, rep.Attempts, rep.Answers, rep.Latency = len(buyers), int(m.Requests), m.StatusCodes, m.Latencies
	rep.first, rep.span = m.Earliest, m.End.Sub(m.Earliest)
	sending := m.Duration
	if rep.Burst {
		sending += time.Second // each burst counts as one second, including the last one
	}
	if sending > 0 {
		rep.OfferedPerS = float64(m.Requests) / sending.Seconds()
	}
	for _, row := range e.Rows {
		rep.Rows[row.Status]++
	}
	records := judge.NewIndex(e)
	rep.Stock = stockOf(records, rep.first, rep.span)
	if e.OnPayment() {
		rep.payments(records)
	}
	rep.rates(records)
	if rep.VisitorOrders > 0 {
		rep.Notes = append(rep.Notes, fmt.Sprintf("%s of other buyers, who hold %s: the units count in the audit, but the answers to these buyers are not judged",
			judge.Plural(rep.VisitorOrders, "order"), judge.Plural(rep.VisitorUnits, "unit")))
	}
	if n := rep.Answers["429"]; n > rep.Attempts/2 {
		rep.Notes = append(rep.Notes, "most orders were rate limited; if the server does not trust this address as a proxy, it limits all buyers as one client")
	}
	rep.applyThresholds()
	return rep
}

// Sold returns the number of units in pending and paid orders at the end.
func (rep *Report) Sold() int { return rep.Pending + rep.Paid }

// LatencyUntrusted reports whether the latencies are unreliable because the load test sent its
// orders too late. The server then had less load than requested, and the load test's machine was
// too busy to measure latencies.
func (rep *Report) LatencyUntrusted() bool {
	return rep.SendDelay.P99 > 10*time.Millisecond && rep.SendDelay.P99 > rep.Latency.P99/2
}

// Trust returns "trusted" or "not trusted" for the latencies.
func (rep *Report) Trust() string {
	if rep.LatencyUntrusted() {
		return "not trusted"
	}
	return "trusted"
}

// payments computes the figures of the payments for the attack's orders.
func (rep *Report) payments(c *judge.Index) {
	rep.Payments = map[string]int{}
	var latency []time.Duration
	for _, cl := range c.Closings {
		if o := c.Ordered[cl.OrderID]; o != nil && o.Requests[0].Attack && !cl.Cancel {
			rep.Payments[cl.Reason()]++
			latency = append(latency, cl.Latency)
		}
	}
	rep.Paying = QuantilesOf(latency)
}

// rates computes the accepted and durable orders per second, and counts the later orders. The time ends with the last answer
// that accepted a new order. Refusals and replays after that would lower the rates.
func (rep *Report) rates(c *judge.Index) {
	var last time.Time
	attack, later := map[judge.Intent]bool{}, map[judge.Intent]bool{}
	for _, o := range c.Outcomes {
		if !slices.ContainsFunc(o.Requests, func(q judge.Request) bool { return q.Attack }) {
			later[o.Intent] = true
			continue
		}
		attack[o.Intent] = true
		for _, id := range o.IDs {
			if accepted := c.PromisedAt(o, id); accepted.After(last) {
				last = accepted
			}
		}
	}
	for _, row := range c.Rows {
		if row.Status != judge.Rejected && later[judge.Intent{Buyer: row.Buyer, Key: row.Key}] {
			rep.Later++
		}
	}
	seconds := last.Sub(rep.first).Seconds()
	if last.IsZero() || seconds <= 0 {
		return
	}
	accepted, durable := 0, 0
	for _, q := range c.Requests {
		if q.Attack && q.Status/100 == 2 && !q.End().After(last) {
			accepted++
		}
	}
	for _, row := range c.Rows { // rows, because a replayed 201 is not a new order
		counts := row.Status == judge.Paid || row.Status != judge.Rejected && !c.OnPayment()
		if counts && attack[judge.Intent{Buyer: row.Buyer, Key: row.Key}] {
			durable++
		}
	}
	rep.AcceptedPerS, rep.DurablePerS = float64(accepted)/seconds, float64(durable)/seconds
	if c.OnPayment() {
		rep.DurablePerS = float64(durable) / last.Sub(c.FirstPayment()).Seconds()
	}
}
