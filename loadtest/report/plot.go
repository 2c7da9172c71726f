package report

import (
	"bytes"
	"slices"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"github.com/tsenart/vegeta/v12/lib/plot"

	"flashsale/loadtest/judge"
)

// latencyPlot is vegeta's page of the attack's latencies, with one line each for
// accepted, refused and neither. It is nil if there was no attack.
func (rep *Report) latencyPlot() ([]byte, error) {
	if rep.Attempts == 0 {
		return nil, nil
	}
	p := plot.New(
		plot.Title("Latency of each order"),
		plot.Downsample(4000),
		plot.Label(func(res *vegeta.Result) string {
			return [...]string{"accepted", "refused", "refused", "ERROR or no answer"}[meaning(int(res.Code))]
		}),
	)
	requests := slices.DeleteFunc(slices.Clone(rep.Evidence.Requests), func(r judge.Request) bool { return !r.Attack })
	slices.SortStableFunc(requests, func(a, b judge.Request) int { return a.Sent.Compare(b.Sent) })
	for i, r := range requests {
		res := result(r)
		res.Seq = uint64(i) // the plot needs every number, and vegeta's own may belong to another sale
		if err := p.Add(res); err != nil {
			return nil, err
		}
	}
	p.Close() // without it the last points would be missing
	var page bytes.Buffer
	_, err := p.WriteTo(&page)
	return page.Bytes(), err
}

// result is a request as a result of vegeta's.
func result(r judge.Request) *vegeta.Result {
	return &vegeta.Result{Attack: "orders", Timestamp: r.Sent, Latency: r.Latency, Code: uint16(r.Status)}
}
