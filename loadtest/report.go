package loadtest

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"
)

// Report is the verdict with everything around it that a reader wants to know.
type Report struct {
	Verdict

	SKU, Name        string
	PerBuyerLimit    int
	ReserveOn        string // OnOrder or OnPayment; empty: OnOrder
	Strategy, Stores string
	Shape            string
	Rate             int           // asked for, per second
	Duration         time.Duration // asked for
	Started          time.Time
	Took             time.Duration // the whole run
	Interrupted      bool

	Attempts     int            // every POST /v1/orders of the attack
	Buyers       int            // who sent them
	Answers      map[string]int // by status; "0" is no answer
	Reasons      map[string]int // the same by status and code: "409 sold_out"
	Rows         map[string]int // stored orders by status
	OfferedPerS  float64        // attempts, over the time of their sending
	AcceptedPerS float64        // 2xx answers, from the first request to the last durable answer
	DurablePerS  float64        // stored orders, over the same time; where paying takes the units, paid ones, from the first payment on
	Latency      Quantiles      // of the attempts
	Payments     map[string]int // answers to payments of the attack's orders, by status and code; nil unless they take the units
	Paying       Quantiles      // of those
	Restore      Quantiles      // from a cancellation's answer until the audit shows the units
	Notes        []string

	timeline []slice
	restores []time.Duration
	plot     []byte // vegeta's page; nil without results
	evidence Evidence
}

// Quantiles of a set of durations, by nearest rank; all 0 for an empty set.
type Quantiles struct {
	N                  int
	P50, P90, P99, Max time.Duration
}

func quantiles(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	all = slices.Clone(all)
	slices.Sort(all)
	rank := func(q float64) time.Duration { return all[max(0, int(math.Ceil(q*float64(len(all))))-1)] }
	return Quantiles{len(all), rank(0.5), rank(0.9), rank(0.99), all[len(all)-1]}
}

// report judges the evidence and adds the figures.
func (r *run) report(e Evidence, interrupted bool) *Report {
	rep := NewReport(r.c, e)
	rep.Started, rep.Took, rep.Interrupted = r.began, time.Since(r.began), interrupted
	rep.restores, rep.Restore = r.restores, quantiles(r.restores)
	rep.Notes = append(rep.Notes, r.notes...)
	r.plot.Close() // or its last points would be missing
	if rep.Attempts > 0 {
		var page bytes.Buffer
		if _, err := r.plot.WriteTo(&page); err != nil {
			rep.Notes = append(rep.Notes, "no latency plot: "+err.Error())
		} else {
			rep.plot = page.Bytes()
		}
	}
	return rep
}

// NewReport judges e and works out the figures that the records alone give.
// c is what Run was given.
func NewReport(c Config, e Evidence) *Report {
	rep := &Report{
		Verdict: Judge(e), SKU: e.SKU, Name: c.Name, PerBuyerLimit: e.PerBuyerLimit, ReserveOn: e.ReserveOn,
		Strategy: c.Strategy, Stores: c.Stores, Shape: c.Shape, Rate: c.Rate, Duration: c.Duration,
		Answers: map[string]int{}, Reasons: map[string]int{}, Rows: map[string]int{},
		evidence: e,
	}
	buyers := map[string]bool{}
	var latency []time.Duration
	// Only the attack's own: what came after waited for its turn and would
	// flatter every figure.
	for _, q := range e.Requests {
		if !q.Attack {
			continue
		}
		rep.Attempts++
		buyers[q.Buyer] = true
		latency = append(latency, q.Latency)
		status := strconv.Itoa(q.Status)
		rep.Answers[status]++
		rep.Reasons[q.reason()]++
	}
	rep.Buyers, rep.Latency = len(buyers), quantiles(latency)
	for _, row := range e.Rows {
		rep.Rows[row.Status]++
	}
	records := newCase(e)
	if e.onPayment() {
		rep.payments(records)
	}
	rep.rates(records)
	if n := rep.Answers["429"]; n > rep.Attempts/2 {
		rep.Notes = append(rep.Notes, "most orders were rate limited; a server that does not trust this address as a proxy sees one client instead of many")
	}
	return rep
}

// payments are the answers to those who fought for the units.
func (rep *Report) payments(c *file) {
	rep.Payments = map[string]int{}
	var latency []time.Duration
	for _, cl := range c.Closings {
		if o := c.ordered[cl.OrderID]; o != nil && o.requests[0].Attack && !cl.Cancel {
			rep.Payments[cl.reason()]++
			latency = append(latency, cl.Latency)
		}
	}
	rep.Paying = quantiles(latency)
}

// rates runs from the first request to the last answer that first said yes to a
// stored order. Later answers, all refusals and replays, would only dilute them.
func (rep *Report) rates(c *file) {
	var first, lastSent, last time.Time
	attack := map[ask]bool{}
	for _, o := range c.asks {
		for _, q := range o.requests {
			if !q.Attack {
				continue
			}
			attack[o.ask] = true
			if first.IsZero() || q.Sent.Before(first) {
				first = q.Sent
			}
			if q.Sent.After(lastSent) {
				lastSent = q.Sent
			}
		}
		for _, id := range o.ids {
			if yes := c.yes(o, id); attack[o.ask] && yes.After(last) {
				last = yes
			}
		}
	}
	rep.timeline = timeline(c.Requests, first)
	if rep.Shape == Burst {
		lastSent = lastSent.Add(time.Second) // the last burst has its second, too
	}
	if s := lastSent.Sub(first).Seconds(); s > 0 {
		rep.OfferedPerS = float64(rep.Attempts) / s
	}
	seconds := last.Sub(first).Seconds()
	if last.IsZero() || seconds <= 0 {
		return
	}
	accepted, durable := 0, 0
	// By rows, not by 201s: a replay's 201 is accepted and not one order more.
	for _, q := range c.Requests {
		if q.Attack && q.Status/100 == 2 && !q.End().After(last) {
			accepted++
		}
	}
	for _, row := range c.Rows {
		counts := row.Status == Paid || row.Status != Rejected && !c.onPayment()
		if counts && attack[ask{row.Buyer, row.Key}] {
			durable++
		}
	}
	rep.AcceptedPerS, rep.DurablePerS = float64(accepted)/seconds, float64(durable)/seconds
	if c.onPayment() {
		rep.DurablePerS = float64(durable) / last.Sub(c.firstPayment()).Seconds()
	}
}
