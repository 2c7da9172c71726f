package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// The command prints the changes up to now, and continues after the cursor that it has printed. With
// --follow it prints further changes, also after the server was unavailable.
func TestChangesCommand(t *testing.T) {
	node := served(t)
	var away atomic.Bool // the server is unavailable once
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Swap(false) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		req, _ := http.NewRequestWithContext(r.Context(), r.Method, node.URL()+r.URL.String(), r.Body)
		req.Header = r.Header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = res.Body.Close() }()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(proxy.Close)
	_, _, err := command(t, "sale", "create", "S", "--price", "1", "--total", "10", "--target", node.URL())
	if err != nil && !strings.Contains(err.Error(), "unavailable") {
		t.Fatal(err)
	}
	changes := func(args ...string) (out, cursor string) {
		t.Helper()
		out, stderr, err := command(t, append([]string{"changes", "--target", node.URL()}, args...)...)
		check.Must(t, err)
		_, cursor, _ = strings.Cut(stderr, "next cursor: ")
		return out, strings.TrimSpace(cursor)
	}
	var out, cursor string
	check.Eventually(t, "the sale is reported", func() bool {
		out, cursor = changes()
		return strings.Count(out, "\n") == 1 && strings.Contains(out, `"kind":"sale"`)
	})
	if again, same := changes("--after", cursor); again != "" || same == "" {
		t.Errorf("changes after the last one: got %q and the cursor %q, want none and a cursor", again, same)
	}
	_, stderr, err := command(t, "changes", "--after", "forged", "--target", node.URL())
	if contains(t, fmt.Sprint(err), "--after must be a cursor"); stderr != "" {
		t.Errorf("changes after a forged cursor: got output %q, want only an error", stderr)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	away.Store(true)
	go func() {
		err := run(ctx, []string{"changes", "--follow", "--after", cursor, "--target", proxy.URL}, write, io.Discard)
		_ = write.Close()
		done <- err
	}()
	id := buys(t, node, "ann", "S", 1)
	lines := bufio.NewScanner(read)
	for found := false; !found; {
		if !lines.Scan() {
			t.Fatal("changes --follow ended before it had printed the order")
		}
		var c struct{ Order struct{ ID string } }
		check.Must(t, json.Unmarshal(lines.Bytes(), &c))
		found = c.Order.ID == id
	}
	interrupt()
	check.OK(t, check.Receive(t, "the command ends", done))
}
