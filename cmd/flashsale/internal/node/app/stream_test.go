package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/feed/webhooks"
)

// A stream is a client of /v1/live.
type stream struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Scanner
}

// watch opens the stream of a sale, or of the overview if sku is empty. With a token it is
// an operator's stream.
func watch(t testing.TB, url, sku, token string) *stream {
	t.Helper()
	s, err := tryWatch(t, url, sku, token)
	check.Must(t, err)
	return s
}

func tryWatch(t testing.TB, url, sku, token string, header ...string) (*stream, error) {
	t.Helper()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(t.Context()), check.Deadline(t))
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/live?sku="+sku, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		return nil, fmt.Errorf("stream of %s: got status %d as %q, want 200 as text/event-stream", sku, res.StatusCode, res.Header.Get("Content-Type"))
	}
	asDescribed(t, req, res, nil)
	return &stream{t: t, body: res.Body, lines: bufio.NewScanner(res.Body)}, nil
}

// seen is an event of any kind.
type seen struct {
	event string
	Now   time.Time
	Sold  int64
	Sale  struct {
		SKU, State       string
		Available, Total int64
	}
	Direct, Exact bool
	Missing       []string
	Crowd         live.Crowd

	ID     int64
	All    struct{ Accepted, Refused, Limited, Failed, Durable, P99 float64 }
	Nodes  []seenNode
	Sales  []seenRow
	Events []seenEntry
	Feed   []webhooks.State
	Points []seenPoint
	Point  seenPoint
	SKU    string
	Marks  []struct {
		What  string
		Units int64
	}
}

type (
	seenEntry struct{ What, SKU, Says string }
	seenPoint struct{ At, Accepted, Available, Sold float64 }
)

// seenRow is a sale in the overview.
type seenRow struct {
	Sale       struct{ SKU string }
	Sold, Paid int64
	P99        float64 `json:"p99_ms"`
	Keeper     string
	Balance    *struct{ Total, Available, Queued, Sold, Restoring, Drift int64 }
}

type seenNode struct {
	Node     string
	Here     bool
	Accepted float64
}

// often returns a change for start: the node makes ten snapshots per second.
func often(node string) func(*Config) {
	return func(c *Config) {
		c.Node, c.SnapshotEvery, c.ReconcileEvery = node, 100*time.Millisecond, 100*time.Millisecond
	}
}

// next returns the next event, or false if the stream has ended.
func (s *stream) next() (e seen, more bool) {
	s.t.Helper()
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "event":
			e.event = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				s.t.Fatalf("event of the stream: the data %s is not valid JSON: %v", value, err)
			}
			return e, true
		}
	}
	return e, false
}

// until reads events until ok returns true for an event of this kind.
func (s *stream) until(what, event string, ok func(seen) bool) seen {
	s.t.Helper()
	var last seen
	for e, more := s.next(); more; e, more = s.next() {
		if e.event != event {
			continue
		}
		if ok(e) {
			return e
		}
		last = e
	}
	s.t.Fatalf("stream of events: it ended with error %v before %s; the last event was %+v", s.lines.Err(), what, last)
	return last
}

// ends reads to the end of the stream. It fails the test if the stream does not end before
// the test's deadline.
func (s *stream) ends() {
	s.t.Helper()
	for more := true; more; {
		_, more = s.next()
	}
	if err := s.lines.Err(); err != nil {
		s.t.Errorf("end of the stream: got error %v, want the server to end it", err)
	}
}

// repeatedly calls do in a loop until the caller calls enough.
func repeatedly(t testing.TB, do func()) (enough func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				do()
			}
		}
	}()
	enough = sync.OnceFunc(func() { close(stop); <-stopped })
	t.Cleanup(enough) // runs before the nodes stop
	return enough
}
