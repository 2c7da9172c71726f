package loadtest

import (
	"bytes"
	"slices"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"github.com/tsenart/vegeta/v12/lib/plot"
)

// latencyPlot is vegeta's page of the attack's latencies, with one line each
// for yes, no and neither.
func latencyPlot(requests []Request) ([]byte, error) {
	p := plot.New(
		plot.Title("Latency of each order"),
		plot.Downsample(4000),
		plot.Label(func(res *vegeta.Result) string {
			switch {
			case res.Code >= 200 && res.Code < 300:
				return "accepted"
			case res.Code >= 300 && res.Code < 500:
				return "refused"
			}
			return "ERROR or no answer"
		}),
	)
	requests = slices.DeleteFunc(slices.Clone(requests), func(r Request) bool { return !r.Attack })
	slices.SortStableFunc(requests, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
	for i, r := range requests {
		// Numbered anew: the plot waits for a number that another sale has.
		err := p.Add(&vegeta.Result{
			Attack: "orders", Seq: uint64(i), Timestamp: r.Sent, Latency: r.Latency, Code: uint16(r.Status),
		})
		if err != nil {
			return nil, err
		}
	}
	p.Close() // or its last points would be missing
	var page bytes.Buffer
	_, err := p.WriteTo(&page)
	return page.Bytes(), err
}
