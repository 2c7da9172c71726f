package traces

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

func TestWanted(t *testing.T) {
	const exporter, endpoint, traceEndpoint = "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, c := range []struct {
		env     map[string]string
		want    bool
		refused bool
	}{
		{env: nil},
		{env: map[string]string{exporter: "none", endpoint: "http://c:4318"}},
		{env: map[string]string{exporter: "otlp", "OTEL_SDK_DISABLED": "true"}},
		{env: map[string]string{exporter: "otlp"}, want: true},
		{env: map[string]string{endpoint: "http://c:4318"}, want: true},
		{env: map[string]string{traceEndpoint: "http://c:4318"}, want: true},
		{env: map[string]string{exporter: "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, want: true},
		{env: map[string]string{exporter: "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, refused: true},
		{env: map[string]string{exporter: "zipkin"}, refused: true},
	} {
		got, err := wanted(func(name string) string { return c.env[name] })
		if got != c.want || (err != nil) != c.refused {
			t.Errorf("environment %v: got traces wanted %v, error %v, want %v, error %v", c.env, got, err, c.want, c.refused)
		}
	}
}

// The collector of the environment receives the spans, with the name of the node. Rejected
// spans are counted.
func TestExport(t *testing.T) {
	for status, lost := range map[int]float64{http.StatusOK: 0, http.StatusBadRequest: 1} {
		paths := make(chan string, 10)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			paths <- r.Method + " " + r.URL.Path
			w.WriteHeader(status)
		}))
		t.Cleanup(collector.Close)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
		t.Setenv("OTEL_SERVICE_NAME", "shop")
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}
		e, err := New(t.Context(), "node-7", func(name string) string { return env[name] })
		if err != nil {
			t.Fatalf("parse the request of the exporter: got error %v, want none", err)
		}
		_, span := e.Tracer("test").Start(context.Background(), "a request")
		resource := span.(sdk.ReadOnlySpan).Resource()
		if name, _ := resource.Set().Value("service.name"); name.AsString() != "shop" {
			t.Errorf("resource: got %v, want service.name shop", resource)
		}
		if node, _ := resource.Set().Value("service.instance.id"); node.AsString() != "node-7" {
			t.Errorf("resource: got %v, want service.instance.id node-7", resource)
		}
		span.End()
		e.Close()
		if got := <-paths; got != "POST /v1/traces" {
			t.Errorf("collector: got %s, want POST /v1/traces", got)
		}
		if got := testutil.ToFloat64(e.Metric()); got != lost {
			t.Errorf("collector that answers %d: got %v lost spans, want %v", status, got, lost)
		}
	}
}
