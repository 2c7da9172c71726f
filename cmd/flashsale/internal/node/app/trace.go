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

// A tracer makes spans of what gate and keeper tell afterwards. They know
// nothing of OpenTelemetry: what they carry along is a W3C traceparent, of
// callers that are sampled, and of no others.
//
// Of one order that is placed on one node and kept by another:
//
//	POST /v1/orders            the request, on its node
//	├─ limiter
//	├─ reserve                 the script call, shared with others
//	├─ queue                   until the keeper came, told by the keeper's node
//	└─ commit                  the keeper's transaction, shared with others
type tracer struct{ trace.Tracer }

// traceparent is what the caller's trace goes on from, "" where it is not sampled.
func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// follow is the inverse of traceparent.
func follow(traceparent string) context.Context {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// tracedLimits is a Limiter whose answers are part of the trace.
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

// maxLinks is what a span has room for by default.
const maxLinks = 128

// shared records work that was done once for several requests: as a span in
// each one's trace, the first of which is linked to the others' requests, and
// they to it. So each trace tells the whole of its story, and nobody's work is
// recorded whose trace is not.
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
