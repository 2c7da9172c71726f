// Package traces exports spans by OTLP over HTTP. The environment variables of
// OpenTelemetry configure it:
//
//	OTEL_TRACES_EXPORTER          otlp or none; the default is otlp if an endpoint is set
//	OTEL_EXPORTER_OTLP_ENDPOINT   such as http://localhost:4318, and all other variables of OTLP
//	OTEL_TRACES_SAMPLER, _ARG     such as parentbased_traceidratio and 0.01; the default samples all
//	OTEL_SERVICE_NAME             the default is flashsale; see also OTEL_RESOURCE_ATTRIBUTES
//	OTEL_SDK_DISABLED             true disables traces, whatever else is set
package traces

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// An Exporter creates spans and sends them to the collector.
type Exporter struct {
	*sdk.TracerProvider
	lost atomic.Int64
}

// New returns an Exporter for a node, or nil if the environment does not enable traces.
// getenv returns the variables that decide this. OpenTelemetry itself reads all other
// variables from the environment.
func New(ctx context.Context, node string, getenv func(string) string) (*Exporter, error) {
	wanted, err := wanted(getenv)
	if !wanted || err != nil {
		return nil, err
	}
	otlp, err := otlptracehttp.New(ctx) // does not connect yet
	if err != nil {
		return nil, fmt.Errorf("open the trace exporter: %w", err)
	}
	named, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "flashsale"), attribute.String("service.instance.id", node)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("build the trace resource: %w", err)
	}
	e := &Exporter{}
	e.TracerProvider = sdk.NewTracerProvider(sdk.WithResource(named), sdk.WithBatcher(counted{otlp, &e.lost}))
	return e, nil
}

func wanted(getenv func(string) string) (bool, error) {
	if getenv("OTEL_SDK_DISABLED") == "true" {
		return false, nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "":
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	case "otlp":
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: got %q, want otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s: got protocol %q, want http/protobuf", name, protocol)
		}
	}
	return true, nil
}

// counted counts the spans that could not be sent. It does not see the spans that the
// batcher drops because its queue is full (OTEL_BSP_MAX_QUEUE_SIZE).
type counted struct {
	sdk.SpanExporter
	lost *atomic.Int64
}

func (c counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		c.lost.Add(int64(len(spans)))
	}
	return err
}

// Close sends the remaining spans. It returns after two seconds at most.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = e.Shutdown(ctx) // OpenTelemetry passes the error to its error handler
}

// Metric returns a counter of the spans that could not be sent.
func (e *Exporter) Metric() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "flashsale_trace_spans_lost_total", Help: "Spans that could not be sent to the collector of traces.",
	}, func() float64 { return float64(e.lost.Load()) })
}
