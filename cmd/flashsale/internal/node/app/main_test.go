package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit/limit"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	servertest.Main(m)
}

const secret = "a secret of these tests, 32 bytes long at least"

// A node is a running App on its own port, with the methods of a client.
type node struct {
	*App
	t    testing.TB
	stop func() error // clean shutdown, also called at the end of the test
}

// testConfig returns a Config with a lease long enough for a starved process, and with a
// log that a failed test prints.
func testConfig(t testing.TB, s *servers.Stores) Config {
	return Config{
		Addr: "127.0.0.1:0", Redis: s.RedisURL, SQL: s.SQL, Secret: secret, Wait: 20 * time.Second, Lease: 20 * time.Second,
		TrustedProxies: []string{"127.0.0.1"}, Log: check.Log(t),
	}
}

// start runs a node until it is ready. change may alter its config.
func start(t testing.TB, s *servers.Stores, change func(*Config)) *node {
	t.Helper()
	cfg := testConfig(t, s)
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	check.Must(t, err)
	n := &node{App: a, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var stopped bool
	n.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return check.Receive(t, "the node stops", done)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("end of the node: got error %v, want none", err)
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		stopped = true
		t.Fatalf("start the node: got error %v, want none", err)
	case <-check.Context(t).Done():
		t.Fatal("timed out waiting for: the node is ready")
	}
	return n
}

// An answer is a response with its whole body.
type answer struct {
	n      *node
	call   string
	status int
	header http.Header
	body   string
	again  func() answer // sends the request again
}

// known repeats the request while its answer is 503 or has a status of retried. On a busy machine a
// healthy node exceeds its own timeouts.
func (a answer) known(retried ...int) answer {
	a.n.t.Helper()
	retried = append(retried, 503)
	logged := ""
	check.Eventually(a.n.t, fmt.Sprint(a.call, " has an answer without a status of ", retried), func() bool {
		unknown := slices.Contains(retried, a.status)
		if unknown {
			if text := fmt.Sprint(a.status, " ", a.body); text != logged { // the reason, if no other answer follows
				logged = text
				a.n.t.Logf("%s is sent again after: %s", a.call, text)
			}
			a = a.again()
		}
		return !unknown
	})
	return a
}

// want fails the test unless the answer has this status and, if given, this code. Before, it
// repeats the request as known does: while the answer is 503, and while the answer is 202 if 201
// is wanted.
func (a answer) want(status int, code ...string) answer {
	a.n.t.Helper()
	switch status {
	case 503:
	case 201:
		a = a.known(202)
	default:
		a = a.known()
	}
	if a.status != status || len(code) > 0 && a.code() != code[0] {
		a.n.t.Errorf("call %s: got %d %v %s, want %d %v", a.call, a.status, a.header, a.body, status, code)
	}
	return a
}

// ok fails the test unless the status is 2xx.
func (a answer) ok() answer {
	a.n.t.Helper()
	a = a.known()
	return a.want(max(200, min(a.status, 299)))
}

// contains checks that the body contains all texts.
func (a answer) contains(texts ...string) answer {
	a.n.t.Helper()
	if !a.has(texts...) {
		a.n.t.Errorf("call %s: got %d %s, want a body with %q", a.call, a.status, a.body, texts)
	}
	return a
}

// replays fails the test unless the answer is a replay of first.
func (a answer) replays(first answer) {
	a.n.t.Helper()
	if a = a.want(201); a.body != first.body || a.header.Get("Idempotent-Replayed") != "true" {
		a.n.t.Errorf("replay: got %v %s, want %s", a.header, a.body, first.body)
	}
}

func (a answer) has(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(a.body, text) })
}

// where returns the Location of a placed order.
func (a answer) where() string { return a.header.Get("Location") }

// id returns the id of a placed order.
func (a answer) id() string {
	id, _, _ := strings.Cut(strings.TrimPrefix(a.where(), "/v1/orders/"), "?")
	return id
}

func (a answer) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Code
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("answer with status %d: the body %q is not the expected JSON: %v", a.status, a.body, err)
	}
}

// send sends one request. Each header is a line "Name: value".
func (n *node) send(method, path, token, body string, header ...string) answer {
	n.t.Helper()
	ctx, cancel := context.WithDeadline(n.t.Context(), check.Deadline(n.t)) // a stream that should have been rejected does not end
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	check.Must(n.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	check.Must(n.t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	check.Must(n.t, err)
	if res.Header.Get("X-Request-Id") == "" {
		n.t.Errorf("answer to %s %s: got no X-Request-Id header, want one", method, path)
	}
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") != "application/problem+json" {
		n.t.Errorf("error answer to %s %s: got status %d as %q, want application/problem+json: %s",
			method, path, res.StatusCode, res.Header.Get("Content-Type"), raw)
	}
	asDescribed(n.t, req, res, raw)
	return answer{
		n: n, call: method + " " + path + " " + body, status: res.StatusCode, header: res.Header, body: string(bytes.TrimSpace(raw)),
		again: func() answer { n.t.Helper(); return n.send(method, path, token, body, header...) },
	}
}

// token returns a token for a buyer or, if admin is true, for an operator.
func (n *node) token(subject string, admin bool) string {
	n.t.Helper()
	token, err := n.Token(subject, admin)
	check.Must(n.t, err)
	return token
}

// terms returns the body of a PUT of a sale. change may alter it.
func terms(t testing.TB, change func(map[string]any)) string {
	t.Helper()
	all := map[string]any{
		"name": "A thing", "price": 1999, "currency": "EUR", "total": 10, "per_buyer_limit": 2,
		"opens_at": time.Now().Add(-time.Hour), "closes_at": time.Now().Add(time.Hour), "payment_window_s": 900,
	}
	if change != nil {
		change(all)
	}
	text, err := json.Marshal(all)
	check.Must(t, err)
	return string(text)
}

// put creates or changes a sale that is open now. change may alter the body.
func (n *node) put(sku string, total, perBuyer, windowSeconds int, change ...func(map[string]any)) answer {
	n.t.Helper()
	body := terms(n.t, func(all map[string]any) {
		all["total"], all["per_buyer_limit"], all["payment_window_s"] = total, perBuyer, windowSeconds
		for _, alter := range change {
			alter(all)
		}
	})
	return n.send("PUT", "/v1/admin/sales/"+sku, n.token("operator", true), body).known()
}

// onPayment is a change for put: the sale takes units on payment.
func onPayment(all map[string]any) { all["reserve_on"] = "payment" }

// window returns a change for put: the sale opens and closes at these times from now.
func window(opens, closes time.Duration) func(map[string]any) {
	return func(all map[string]any) {
		all["opens_at"], all["closes_at"] = time.Now().Add(opens), time.Now().Add(closes)
	}
}

// order places an order of one unit under the key k.
func (n *node) order(sku, buyer string, header ...string) answer {
	n.t.Helper()
	return n.orderBy(sku, buyer, "k", header...)
}

func (n *node) orderBy(sku, buyer, key string, header ...string) answer {
	n.t.Helper()
	return n.send("POST", "/v1/orders", n.token(buyer, false), fmt.Sprintf(`{"sku":%q,"quantity":1}`, sku), append(header, "Idempotency-Key: "+key)...)
}

// sold places an order and repeats the request until the order is accepted.
func (n *node) sold(sku, buyer string) answer {
	n.t.Helper()
	return n.order(sku, buyer).want(201)
}

func (n *node) pay(buyer, where, ref string) answer {
	n.t.Helper()
	return n.send("POST", where+"/pay", n.token(buyer, false), `{"payment_ref":"`+ref+`"}`)
}

func (n *node) cancel(buyer, where string, header ...string) answer {
	n.t.Helper()
	return n.send("POST", where+"/cancel", n.token(buyer, false), "", header...)
}

func (n *node) audit(sku string) answer {
	n.t.Helper()
	return n.send("GET", "/v1/admin/sales/"+sku+"/audit", n.token("operator", true), "")
}

// audited waits until the audit of a sale contains all texts.
func (n *node) audited(sku string, texts ...string) {
	n.t.Helper()
	check.Eventually(n.t, fmt.Sprintf("the audit of %s contains %q", sku, texts), func() bool { return n.audit(sku).has(texts...) })
}

func parseLimit(t testing.TB, text string) limit.Limit {
	t.Helper()
	l, err := limit.Parse(text)
	check.Must(t, err)
	return l
}

func openRedis(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	check.Must(t, err)
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
