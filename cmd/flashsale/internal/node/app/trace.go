package app

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"flashsale/inventory"
	"flashsale/orders/keeper"
	"flashsale/orders/shop"
)

// A tracer creates spans from the reports of the gate and the keeper. Both are free of
// OpenTelemetry: they carry only the W3C traceparent of sampled requests.
//
// The trace of an order that one node places and the keeper of another node commits:
//
//	POST /v1/orders            the request
//	├─ limiter
//	├─ reserve                 the script call, shared with other orders
//	├─ queue                   the wait for the keeper, reported by the keeper's node
//	└─ commit                  the keeper's transaction, shared with other orders
type tracer struct{ trace.Tracer }

// traceparent returns the traceparent of the current span, or "" if it is not sampled.
func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// follow returns a context with the span of a traceparent.
func follow(traceparent string) context.Context {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// tracedLimits is a Limiter that creates a span for each sampled request.
type tracedLimits struct {
	shop.Limiter
	tracer tracer
}

func (l tracedLimits) Allow(ctx context.Context, buyer, ip, sku string) error {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return l.Limiter.Allow(ctx, buyer, ip, sku)
	}
	ctx, span := l.tracer.Start(ctx, "limiter")
	defer span.End()
	return l.Limiter.Allow(ctx, buyer, ip, sku)
}

func (t tracer) batch(b inventory.Batch) {
	t.shared("reserve", b.Began, b.Took, b.Err, b.Traces,
		attribute.String("flashsale.sku", b.SKU), attribute.Int("flashsale.batch", b.Requests))
}

func (t tracer) commit(c *keeper.Commit) {
	var traces []string
	for _, o := range c.Orders {
		if o.Trace == "" {
			continue
		}
		traces = append(traces, o.Trace)
		if since, known := c.Reserved(o); known {
			_, span := t.Start(follow(o.Trace), "queue", trace.WithTimestamp(since), trace.WithSpanKind(trace.SpanKindConsumer),
				trace.WithAttributes(attribute.String("flashsale.order", o.OrderID)))
			span.End(trace.WithTimestamp(c.Began))
		}
	}
	t.shared("commit", c.Began, c.Took, c.Err, traces,
		attribute.String("flashsale.sku", c.SKU), attribute.Int("flashsale.batch", len(c.Orders)), attribute.Int64("flashsale.fence", c.Fence))
}

// maxLinks is OpenTelemetry's default limit of links per span.
const maxLinks = 128

// shared records work that was done once for several requests. It adds a span to the
// trace of each sampled request, so each trace is complete. The first span links to all
// other requests, and the spans of these requests link to the first span.
func (t tracer) shared(name string, began time.Time, took time.Duration, err error, traces []string, attributes ...attribute.KeyValue) {
	var first trace.SpanContext
	for i, parent := range traces {
		ctx := follow(parent)
		var links []trace.Link
		if i == 0 {
			for _, other := range traces[1:min(len(traces), maxLinks+1)] {
				links = append(links, trace.Link{SpanContext: trace.SpanContextFromContext(follow(other))})
			}
		} else {
			links = []trace.Link{{SpanContext: first}}
		}
		_, span := t.Start(ctx, name, trace.WithTimestamp(began), trace.WithLinks(links...), trace.WithAttributes(attributes...))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End(trace.WithTimestamp(began.Add(took)))
		if i == 0 {
			first = span.SpanContext()
		}
	}
}
