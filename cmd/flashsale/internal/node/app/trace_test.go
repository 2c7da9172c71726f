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

// recorder returns a provider that records only the requests that the caller samples.
func recorder() (trace.TracerProvider, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return sdk.NewTracerProvider(sdk.WithSyncer(spans), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))), spans
}

// An order that is placed on one node and kept by another has one trace, from the client's
// span to the transaction. Orders that are not sampled have no spans.
func TestTraceCrossesNodes(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	nodes, spans := map[string]*node{}, map[string]*tracetest.InMemoryExporter{}
	for _, name := range []string{"a", "b"} {
		nodes[name] = start(t, s, func(c *Config) {
			c.Node = name
			c.Lease = 20 * time.Second // a busy node must not lose its lease
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

	// Repeat until b keeps a sale and has read the clock of Redis.
	traced, placed := map[string]tracetest.SpanStub{}, ""
	check.Eventually(t, "an order is placed on a and kept by b", func() bool {
		kept := b.service.Controller().KeptSKUs()
		if len(kept) == 0 {
			return false
		}
		body := `{"sku":"` + kept[0] + `","quantity":1}`
		a.send("POST", "/v1/orders", ann, body).want(201)
		for _, node := range spans {
			if stubs := node.GetSpans(); len(stubs) > 0 {
				t.Fatalf("order that is not sampled: got spans %+v, want none", stubs)
			}
		}
		placed = a.send("POST", "/v1/orders", ann, body, "traceparent: "+client).want(201).id()
		check.Eventually(t, "the span of the request is exported", func() bool {
			return slices.ContainsFunc(spans["a"].GetSpans(), func(s tracetest.SpanStub) bool { return s.Name == "POST /v1/orders" })
		})
		clear(traced)
		for name, node := range spans {
			for _, span := range node.GetSpans() {
				traced[name+" "+span.Name] = span
			}
			node.Reset()
		}
		_, queue := traced["b queue"]
		_, commit := traced["b commit"]
		return queue && commit
	})
	root := traced["a POST /v1/orders"]
	if root.Parent.TraceID().String() != traceID || root.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("parent of the request's span: got trace %s, span %s, want %s", root.Parent.TraceID(), root.Parent.SpanID(), client)
	}
	if !slices.Contains(root.Attributes, attribute.Int("http.response.status_code", 201)) || !slices.Contains(root.Attributes, attribute.String("flashsale.order", placed)) {
		t.Errorf("attributes of the request's span: got %v, want status 201 and the order %s", root.Attributes, placed)
	}
	for _, name := range []string{"a limiter", "a reserve", "b queue", "b commit"} {
		span, found := traced[name]
		if !found || span.SpanContext.TraceID().String() != traceID || span.Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("span %s: got found %v, trace %s, parent %s, want the request's trace and parent %s",
				name, found, span.SpanContext.TraceID(), span.Parent.SpanID(), root.SpanContext.SpanID())
		}
		if span.EndTime.Before(span.StartTime) {
			t.Errorf("span %s: got start %v after end %v, want the end later", name, span.StartTime, span.EndTime)
		}
	}
	if len(traced) != 5 {
		t.Errorf("spans of the trace: got %d, want 5: %v", len(traced), traced)
	}
}

// Shared work has a span in the trace of each request, and the spans are linked.
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
	recorded := spans.GetSpans()
	if len(recorded) != len(callers) {
		t.Fatalf("spans of a shared call: got %d, want %d", len(recorded), len(callers))
	}
	parent := func(i int) trace.SpanContext { return trace.SpanContextFromContext(follow(callers[i])) }
	for i, span := range recorded {
		if !span.Parent.Equal(parent(i)) || span.Name != "reserve" || !span.StartTime.Equal(began) || span.EndTime.Sub(span.StartTime) != time.Second {
			t.Errorf("span of caller %d: got %+v, want a span reserve of one second under the caller's span", i, span)
		}
	}
	if l := recorded[0].Links; len(l) != 2 || !l[0].SpanContext.Equal(parent(1)) || !l[1].SpanContext.Equal(parent(2)) {
		t.Errorf("links of the first span: got %+v, want links to the other two callers", l)
	}
	for _, span := range recorded[1:] {
		if l := span.Links; len(l) != 1 || !l[0].SpanContext.Equal(recorded[0].SpanContext) {
			t.Errorf("links of another caller's span: got %+v, want a link to the first span", l)
		}
	}
}

// Only a sampled request has a traceparent. For other requests it costs no allocation.
func TestTraceparent(t *testing.T) {
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	if got := traceparent(follow(header + "01")); got != header+"01" {
		t.Errorf("traceparent of a sampled span: got %q, want %q", got, header+"01")
	}
	for what, ctx := range map[string]context.Context{"not sampled": follow(header + "00"), "no trace": context.Background()} {
		if got, allocs := traceparent(ctx), testing.AllocsPerRun(100, func() { traceparent(ctx) }); got != "" || allocs != 0 {
			t.Errorf("traceparent of %s: got %q with %v allocations, want \"\" with 0", what, got, allocs)
		}
	}
}
