package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// health runs healthcheck and returns its exit status and its output.
func health(t *testing.T, args ...string) (status int, output string) {
	t.Helper()
	_, output, err := command(t, append([]string{"healthcheck"}, args...)...)
	var exit exitCode
	switch {
	case err == nil:
		return 0, output
	case errors.As(err, &exit):
		return int(exit), output
	}
	t.Fatalf("healthcheck with the arguments %v: got error %v, want none or an exit status", args, err)
	return 0, ""
}

// readiness starts a server whose /readyz responds with status and body.
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
		if status, output := health(t, "--addr", addr); status != 0 {
			t.Errorf("healthcheck --addr %s: got exit status %d, want 0: %s", addr, status, output)
		}
	}
	t.Setenv("FLASHSALE_ADDR", ":"+port) // serve and healthcheck use the same variable
	if status, output := health(t); status != 0 {
		t.Errorf("FLASHSALE_ADDR: got exit status %d, want 0: %s", status, output)
	}
	if status, _ := health(t, node.URL+"/elsewhere"); status != 1 {
		t.Errorf("healthcheck of a URL that is answered with 404: got exit status %d, want 1", status)
	}
}

func TestHealthcheckPrintsCause(t *testing.T) {
	node := readiness(t, http.StatusServiceUnavailable, `{"code":"unavailable","detail":"redis does not answer"}`)
	status, output := health(t, node.URL+"/readyz")
	if status != 1 || !strings.Contains(output, "503") || !strings.Contains(output, "redis does not answer") {
		t.Errorf("healthcheck of a node that is not ready: got exit status %d, want 1 and the reason of the node: %s", status, output)
	}
	node.Close()
	if status, output := health(t, node.URL+"/readyz"); status != 1 || !strings.Contains(output, "refused") {
		t.Errorf("healthcheck of a closed port: got exit status %d, want 1 and the cause: %s", status, output)
	}
}

// A node that sells in spite of a failure is healthy, and healthcheck prints the reason.
func TestHealthcheckPrintsState(t *testing.T) {
	degraded := readiness(t, http.StatusOK, `{"status":"degraded","detail":"redis does not answer"}`).URL + "/readyz"
	ok := readiness(t, http.StatusOK, `{"status":"ok"}`).URL + "/readyz"
	for line, want := range map[string]string{
		degraded: "degraded: redis does not answer\n", degraded + " --quiet": "degraded: redis does not answer\n",
		ok: "healthy: " + ok + "\n", ok + " --quiet": "",
	} {
		out, _, err := command(t, append([]string{"healthcheck"}, strings.Fields(line)...)...)
		if check.Must(t, err); out != want {
			t.Errorf("healthcheck %s: got output %q, want %q", line, out, want)
		}
	}
}

// A node that accepts the connection but does not respond must not block the check.
// Otherwise Docker starts the next check in parallel.
func TestHealthcheckEndsInTime(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	if status, output := health(t, "--timeout", "1s", s.URL); status != 1 || !strings.Contains(output, context.DeadlineExceeded.Error()) {
		t.Errorf("healthcheck of a silent node: got exit status %d, want 1 and a timeout: %s", status, output)
	}
}

// A proxy of the environment does not answer for the node. A connection to 0.0.0.0 reaches this
// machine, and net/http would use a proxy for it.
func TestHealthcheckUsesNoProxy(t *testing.T) {
	proxy := readiness(t, http.StatusOK, `{"status":"ok"}`)
	cmd := exec.CommandContext(check.Context(t), os.Args[0], "healthcheck", "http://0.0.0.0:1/readyz")
	cmd.Env = append(os.Environ(), "HTTP_PROXY="+proxy.URL)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("healthcheck of a closed port with a proxy: got no error, want one: %s", out)
	}
}

func TestHealthcheckRejectsInvalidAddr(t *testing.T) {
	if status, output := health(t, "nonsense"); status != 1 || !strings.Contains(output, "the target") {
		t.Errorf("healthcheck of no URL: got exit status %d, want 1 and the reason: %s", status, output)
	}
	refuses(t, []string{"healthcheck", "--addr", "8080"}, "HOST:PORT")
}
