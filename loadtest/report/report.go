package report

import (
	"fmt"
	"slices"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"flashsale/loadtest/judge"
)

// Config describes the attack and the server of a report.
type Config struct {
	Name             string // of the sale, as buyers see it
	Strategy, Stores string // of the server; empty: not known
	Versions         string // of the stores; empty: not known
	Command, Program string // that attacked: command line and revision; empty: not known
	Seed             int64
	Cores            int    // of the machine that attacked
	Scenario         string // empty: none
	Schedule         string // the attack that was asked for, in words
	Burst            bool   // the attack ends in a burst
}

// Seen is what a run observed besides the evidence.
type Seen struct {
	Started     time.Time
	Took        time.Duration // the whole run
	Interrupted bool
	Stock       []StockPoint    // over the attack
	Restores    []time.Duration // each from the answer to a cancellation until the audit shows the units
	Late        []time.Duration // of each order of the attack: how long after it was due it was sent
	Notes       []string
}

// StockPoint is how many units the sale's page showed at one moment.
type StockPoint struct {
	At        time.Time
	Available int
}

// Report is the verdict on one sale, with the figures of the attack.
type Report struct {
	judge.Verdict
	Config
	Seen

	SKU           string
	PerBuyerLimit int
	ReserveOn     string // OnOrder or OnPayment; empty: OnOrder

	Attempts     int                   // every POST /v1/orders of the attack
	Buyers       int                   // who sent them
	Answers      map[string]int        // by status; "0" is no answer
	Reasons      map[string]int        // the same by status and code: "409 sold_out"
	Rows         map[string]int        // stored orders by status
	OfferedPerS  float64               // attempts, over the time of their sending
	AcceptedPerS float64               // 2xx answers, from the first request to the last durable answer
	DurablePerS  float64               // stored orders, over the same time; where paying takes the units, paid ones, from the first payment on
	Latency      vegeta.LatencyMetrics // of the attempts
	Payments     map[string]int        // answers to payments of the attack's orders, by status and code; nil unless they take the units
	Paying       Quantiles             // of those
	Restore      Quantiles             // of Restores
	Lateness     Quantiles             // of Late

	first    time.Time     // request of the attack
	span     time.Duration // from there to the last answer of the attack
	Evidence judge.Evidence
}

// New judges the evidence and works out the figures.
func New(c Config, e judge.Evidence, seen Seen) *Report {
	rep := &Report{
		Verdict: judge.Judge(e), Config: c, Seen: seen, SKU: e.SKU, PerBuyerLimit: e.PerBuyerLimit, ReserveOn: e.ReserveOn,
		Restore: QuantilesOf(seen.Restores), Lateness: QuantilesOf(seen.Late),
		Reasons: map[string]int{}, Rows: map[string]int{},
		Evidence: e,
	}
	// Only requests of the attack count. Those after it come one by one, and
	// would make every figure look better.
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
		sending += time.Second // the last burst lasts a second like the others
	}
	if sending > 0 {
		rep.OfferedPerS = float64(m.Requests) / sending.Seconds()
	}
	for _, row := range e.Rows {
		rep.Rows[row.Status]++
	}
	records := judge.NewIndex(e)
	if e.OnPayment() {
		rep.payments(records)
	}
	rep.rates(records)
	if rep.VisitorOrders > 0 {
		rep.Notes = append(rep.Notes, fmt.Sprintf("%s of other people, who hold %s: the units are in the law, and what these people were told is not judged",
			judge.Plural(rep.VisitorOrders, "order"), judge.Plural(rep.VisitorUnits, "unit")))
	}
	if n := rep.Answers["429"]; n > rep.Attempts/2 {
		rep.Notes = append(rep.Notes, "most orders were rate limited; a server that does not trust this address as a proxy sees one client instead of many")
	}
	return rep
}

// Sold is how many units buyers have in the end.
func (rep *Report) Sold() int { return rep.Pending + rep.Paid }

// Doubted says that the latencies are not to be trusted. Orders that came late
// met a server with less to do than was asked for, and a machine that sends late
// reads its clock late.
func (rep *Report) Doubted() bool {
	return rep.Lateness.P99 > 10*time.Millisecond && rep.Lateness.P99 > rep.Latency.P99/2
}

// payments counts the answers to payments of the attack's orders.
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

// rates works out accepted and durable orders per second. The time ends with the
// last answer that was the first yes to a stored order. Only refusals and replays
// come later, and would lower the rates.
func (rep *Report) rates(c *judge.Index) {
	var last time.Time
	attack := map[judge.Intent]bool{}
	for _, o := range c.Outcomes {
		if !slices.ContainsFunc(o.Requests, func(q judge.Request) bool { return q.Attack }) {
			continue
		}
		attack[o.Intent] = true
		for _, id := range o.IDs {
			if yes := c.Yes(o, id); yes.After(last) {
				last = yes
			}
		}
	}
	seconds := last.Sub(rep.first).Seconds()
	if last.IsZero() || seconds <= 0 {
		return
	}
	accepted, durable := 0, 0
	// Count rows, not 201s: the 201 of a replay is no new order.
	for _, q := range c.Requests {
		if q.Attack && q.Status/100 == 2 && !q.End().After(last) {
			accepted++
		}
	}
	for _, row := range c.Rows {
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
