package alerts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// every is the time between two samples. It is the interval of .compose/prometheus.yml.
const every = 5 * time.Second

// scraped are series as Prometheus stores them. The first sample is at the Unix epoch.
type scraped []storage.Series

// scrape parses series in the notation of Prometheus's own tests, one per line: a name
// with labels, and values. "0+2x3" stands for 0 2 4 6, "1x3" for 1 1 1 1, and "_x3" for
// three missing values.
func scrape(t *testing.T, text string) (all scraped) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, values, err := parser.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("metrics line %q: got error %v, want none", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{(time.Duration(i) * every).Milliseconds(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(name, samples))
	}
	return all
}

// A sample is one value of a series.
type sample struct {
	at    int64 // ms
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Querier implements storage.Queryable for the engine.
func (s scraped) Querier(int64, int64) (storage.Querier, error) { return querier{series: s}, nil }

type querier struct {
	storage.LabelQuerier
	series scraped
}

func (q querier) Close() error { return nil }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, series := range q.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Labels().Get(m.Name)) }) {
			set.left = append(set.left, series)
		}
	}
	return set
}

type seriesSet struct {
	left []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// same returns the lines for several nodes, with each node's labels instead of NODE.
func same(nodes int, lines string) string {
	var text strings.Builder
	for n := range nodes {
		fmt.Fprintln(&text, strings.ReplaceAll(lines, "NODE", fmt.Sprintf(`job="flashsale", instance="10.0.0.%d:9090"`, n+1)))
	}
	return text.String()
}
