package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// health runs the command as the container does and returns its exit status
// and what it said.
func health(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	_, said, err := command(t, append([]string{"healthcheck"}, args...)...)
	var exit exitCode
	switch {
	case err == nil:
		return 0, said
	case errors.As(err, &exit):
		return int(exit), said
	}
	t.Fatalf("healthcheck %v: %v", args, err)
	return 0, ""
}

// readiness is a server whose /readyz answers with status and body.
func readiness(t *testing.T, status int, body string) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestHealthcheckAsksTheNodeOnAddr(t *testing.T) {
	node := readiness(t, http.StatusOK, `{"status":"ok"}`)
	_, port, _ := net.SplitHostPort(node.Listener.Addr().String())
	for _, addr := range []string{":" + port, "0.0.0.0:" + port, "[::]:" + port, "127.0.0.1:" + port} {
		if status, said := health(t, "--addr", addr); status != 0 {
			t.Errorf("--addr %s: exit status %d, want 0: %s", addr, status, said)
		}
	}
	t.Setenv("FLASHSALE_ADDR", ":"+port) // where serve has its address from, too
	if status, said := health(t); status != 0 {
		t.Errorf("FLASHSALE_ADDR: exit status %d, want 0: %s", status, said)
	}
	if status, _ := health(t, node.URL+"/elsewhere"); status != 1 {
		t.Errorf("a URL of its own that is not found: exit status %d, want 1", status)
	}
}

func TestHealthcheckSaysWhatIsMissing(t *testing.T) {
	node := readiness(t, http.StatusServiceUnavailable, `{"detail":"redis does not answer"}`)
	status, said := health(t, node.URL+"/readyz")
	if status != 1 || !strings.Contains(said, "503") || !strings.Contains(said, "redis does not answer") {
		t.Errorf("exit status %d, want 1, and the node's own reason in: %s", status, said)
	}
	node.Close()
	if status, said := health(t, node.URL+"/readyz"); status != 1 || !strings.Contains(said, "refused") {
		t.Errorf("nobody listens: exit status %d, want 1 and why: %s", status, said)
	}
}

// A node that takes the connection and then says nothing must not keep the
// check, or the next one starts beside it.
func TestHealthcheckEndsInTime(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	if status, said := health(t, "--timeout", "1s", s.URL); status != 1 || !strings.Contains(said, context.DeadlineExceeded.Error()) {
		t.Errorf("exit status %d, want 1 and that it took too long: %s", status, said)
	}
}

func TestHealthcheckRefusesAnAddrThatIsNone(t *testing.T) {
	refuses(t, []string{"healthcheck", "--addr", "8080"}, "HOST:PORT")
}
