// Package traces exports spans by OTLP, as the environment variables of
// OpenTelemetry say:
//
//	OTEL_TRACES_EXPORTER          otlp, or none, which is the default unless there is an endpoint
//	OTEL_EXPORTER_OTLP_ENDPOINT   such as http://localhost:4318, and the others of OTLP over HTTP
//	OTEL_TRACES_SAMPLER, _ARG     such as parentbased_traceidratio and 0.01; all by default
//	OTEL_SERVICE_NAME             flashsale by default, and OTEL_RESOURCE_ATTRIBUTES
//	OTEL_SDK_DISABLED             true for none, whatever else is set
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

// An Exporter has what it takes to make spans, and sends them off.
type Exporter struct {
	*sdk.TracerProvider
	lost atomic.Int64
}

// New returns an Exporter for a node, nil where no traces are wanted. getenv
// reads the environment; what concerns OTLP and sampling alone, OpenTelemetry
// reads itself.
func New(ctx context.Context, node string, getenv func(string) string) (*Exporter, error) {
	wanted, err := wanted(getenv)
	if !wanted || err != nil {
		return nil, err
	}
	otlp, err := otlptracehttp.New(ctx) // it connects when it has something to send
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	named, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "flashsale"), attribute.String("service.instance.id", node)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("describe this node to the collector of traces: %w", err)
	}
	e := &Exporter{}
	e.TracerProvider = sdk.NewTracerProvider(sdk.WithResource(named), sdk.WithBatcher(counted{otlp, &e.lost}))
	return e, nil
}

// wanted tells whether the environment asks for traces.
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
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is neither otlp nor none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" && protocol != "http/protobuf" {
			return false, fmt.Errorf("%s: %q is not http/protobuf, the one protocol that there is here", name, protocol)
		}
	}
	return true, nil
}

// counted counts what could not be sent. Spans that are made faster than they
// are sent (OTEL_BSP_MAX_QUEUE_SIZE) are dropped before they come here.
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

// Close sends what is left, for two seconds at most.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = e.Shutdown(ctx) // the error handler has heard of it
}

// Metric counts the spans that could not be sent.
func (e *Exporter) Metric() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "flashsale_trace_spans_lost_total", Help: "Spans that could not be sent to the collector of traces.",
	}, func() float64 { return float64(e.lost.Load()) })
}
