package app

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// recorder makes spans of what a caller wants traced, and of nothing else.
func recorder() (trace.TracerProvider, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))), spans
}

// An order that is placed on one node and kept by another is one story, from
// the client's own span to the transaction. Of orders that nobody wants traced
// nothing is recorded.
func TestTraceCrossesNodes(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	nodes, spans := map[string]*node{}, map[string]*tracetest.InMemoryExporter{}
	for _, name := range []string{"a", "b"} {
		nodes[name] = start(t, s, func(c *Config) {
			c.Node = name
			c.Lease = 20 * time.Second // neither is to be taken for dead
			c.Traces, spans[name] = recorder()
		})
	}
	a, b := nodes["a"], nodes["b"]
	skus := []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8"}
	for _, sku := range skus {
		check.Eventually(t, "sale of "+sku, func() bool { return a.put(sku, 1_000_000, 1_000_000, 900).status < 300 })
	}
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	const client = "00-" + traceID + "-b7ad6b7169203331-01"
	ann := a.token("ann", false)

	// Until one that is b's comes through while b knows Redis's clock.
	story := map[string]tracetest.SpanStub{}
	check.Eventually(t, "an order of a, kept by b", func() bool {
		kept := b.service.Keepers().Kept()
		if len(kept) == 0 {
			return false
		}
		body := `{"sku":"` + kept[0] + `","quantity":1}`
		a.send("POST", "/v1/orders", ann, body).is(201)
		for _, node := range spans {
			if stubs := node.GetSpans(); len(stubs) > 0 {
				t.Fatalf("of an order that is not traced: %+v", stubs)
			}
		}
		a.send("POST", "/v1/orders", ann, body, "traceparent: "+client).is(201)
		check.Eventually(t, "the request's span", func() bool {
			return slices.ContainsFunc(spans["a"].GetSpans(), func(s tracetest.SpanStub) bool { return s.Name == "POST /v1/orders" })
		})
		clear(story)
		for name, node := range spans {
			for _, span := range node.GetSpans() {
				story[name+" "+span.Name] = span
			}
			node.Reset()
		}
		_, queue := story["b queue"]
		_, commit := story["b commit"]
		return queue && commit
	})
	root := story["a POST /v1/orders"]
	if root.Parent.TraceID().String() != traceID || root.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("the request is part of %s, span %s", root.Parent.TraceID(), root.Parent.SpanID())
	}
	if !slices.Contains(root.Attributes, attribute.Int("http.response.status_code", 201)) {
		t.Errorf("the request's span has %v", root.Attributes)
	}
	for _, name := range []string{"a limiter", "a reserve", "b queue", "b commit"} {
		span, told := story[name]
		if !told || span.SpanContext.TraceID().String() != traceID || span.Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("%s: told %v, trace %s, under %s, want under %s", name, told, span.SpanContext.TraceID(), span.Parent.SpanID(), root.SpanContext.SpanID())
		}
		if span.EndTime.Before(span.StartTime) {
			t.Errorf("%s: from %v to %v", name, span.StartTime, span.EndTime)
		}
	}
	if len(story) != 5 {
		t.Errorf("%d spans: %v", len(story), story)
	}
}

// Work that several requests share is in the trace of each, and linked.
func TestSharedWorkIsLinked(t *testing.T) {
	t.Parallel()
	provider, spans := recorder()
	callers := []string{
		"00-00000000000000000000000000000001-0000000000000001-01",
		"00-00000000000000000000000000000002-0000000000000002-01",
		"00-00000000000000000000000000000003-0000000000000003-01",
	}
	began := time.Now()
	tracer{provider.Tracer("test")}.batch(inventory.Batch{SKU: "S", Requests: 7, Began: began, Took: time.Second, Traces: callers})
	told := spans.GetSpans()
	if len(told) != len(callers) {
		t.Fatalf("%d spans of %d callers", len(told), len(callers))
	}
	parent := func(i int) trace.SpanContext { return trace.SpanContextFromContext(follow(callers[i])) }
	for i, span := range told {
		if !span.Parent.Equal(parent(i)) || span.Name != "reserve" || !span.StartTime.Equal(began) || span.EndTime.Sub(span.StartTime) != time.Second {
			t.Errorf("caller %d: %+v", i, span)
		}
	}
	if l := told[0].Links; len(l) != 2 || !l[0].SpanContext.Equal(parent(1)) || !l[1].SpanContext.Equal(parent(2)) {
		t.Errorf("the first is linked to %+v", l)
	}
	for _, span := range told[1:] {
		if l := span.Links; len(l) != 1 || !l[0].SpanContext.Equal(told[0].SpanContext) {
			t.Errorf("another is linked to %+v", l)
		}
	}
}

// Only of what is sampled does anything go along with the order.
func TestTraceparent(t *testing.T) {
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	if got := traceparent(follow(header + "01")); got != header+"01" {
		t.Errorf("of a sampled caller: %q", got)
	}
	for what, ctx := range map[string]context.Context{"one that is not sampled": follow(header + "00"), "none": context.Background()} {
		if got := traceparent(ctx); got != "" || testing.AllocsPerRun(100, func() { traceparent(ctx) }) != 0 {
			t.Errorf("of %s: %q, and it costs allocations", what, got)
		}
	}
}
