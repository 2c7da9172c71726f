package web

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"flashsale/cmd/flashsale/internal/node/live"
)

// placing is the route whose figures people watch.
const placing = "/v1/orders"

// Requests reads from the metrics what became of the requests to place an order.
func (s *Server) Requests() live.Requests {
	var r live.Requests
	collect(s.metrics.requests, func(labels map[string]string, m *dto.Metric) {
		if labels["route"] != placing || labels["method"] != "POST" {
			return
		}
		n := int64(m.GetCounter().GetValue())
		switch status := labels["status"]; {
		case status == "201" || status == "202":
			r.Accepted += n
		case status == "409":
			r.Refused += n
		case status == "429":
			r.Limited += n
		case status >= "500":
			r.Failed += n
		}
	})
	collect(s.metrics.seconds, func(labels map[string]string, m *dto.Metric) {
		if labels["route"] != placing {
			return
		}
		r.Bounds, r.Took = nil, nil
		for _, b := range m.GetHistogram().GetBucket() {
			r.Bounds, r.Took = append(r.Bounds, b.GetUpperBound()), append(r.Took, b.GetCumulativeCount())
		}
		r.Took = append(r.Took, m.GetHistogram().GetSampleCount())
	})
	return r
}

// collect hands over each metric of a vector, with its labels.
func collect(from prometheus.Collector, each func(labels map[string]string, m *dto.Metric)) {
	metrics := make(chan prometheus.Metric)
	go func() { from.Collect(metrics); close(metrics) }()
	for metric := range metrics {
		var m dto.Metric
		if metric.Write(&m) != nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		each(labels, &m)
	}
}
