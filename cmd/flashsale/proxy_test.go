package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
)

// proxiedNode starts a server that is ready and passes all other requests to handle. It
// returns the address of the server.
func proxiedNode(t *testing.T, handle http.HandlerFunc) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" && r.URL.Path != "/livez" {
			handle(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// die closes the connection of a request without an answer, as a node does that is killed.
func die(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// haproxy returns the path and the version of HAProxy.
func haproxy(t *testing.T) (path, version string) {
	t.Helper()
	needReal(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the loopback addresses after 127.0.0.1")
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/haproxy")
	}
	if err != nil {
		skipUnlessInstalled(t, fmt.Errorf("%w: %w", servers.ErrNotInstalled, err))
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "-v").Output()
	check.Must(t, err)
	_, version, _ = strings.Cut(string(out), "version ")
	return path, version
}

// startProxy starts HAProxy with the configuration of the Compose stack on loopback, in
// front of two nodes. It returns the addresses of the port that is published and of the
// port for the load test. replace contains further changes of the configuration, each an
// old and a new text.
func startProxy(t *testing.T, node1, node2 string, replace ...string) (public, inside string) {
	t.Helper()
	path, _ := haproxy(t)
	for name, value := range map[string]string{
		"FLASHSALE_BALANCER": "127.0.0.7 127.0.1.0/24", "FLASHSALE_ADDRESS_CONNECTIONS": "2", "FLASHSALE_ADDRESS_REQUESTS": "6",
	} {
		t.Setenv(name, value)
	}
	cfg := read(t, ".compose/haproxy.cfg")
	dir := t.TempDir()
	check.Must(t, os.CopyFS(filepath.Join(dir, "errors"), os.DirFS(filepath.Join(root, ".compose/errors"))))
	inside, err := servers.FreeAddr(t.Context())
	check.Must(t, err)
	p, err := servers.StartCommand(check.Context(t), servers.Command{
		Path: path,
		Args: func(addr string) []string {
			public = addr
			file := filepath.Join(dir, "haproxy.cfg")
			check.Must(t, os.WriteFile(file, []byte(onLoopback(t, cfg, append(replace,
				":8080 name public", addr+" name public", "bind :8081", "bind "+inside,
				" resolvers containers init-addr none", "",
				"server-template node 1-8 api:8080", "server node1 "+node1+"\n    server node2 "+node2)...)), 0o600))
			return []string{"-db", "-f", file}
		},
		Serving: func(ctx context.Context, _ string) error {
			_, _, err := ask(ctx, "127.0.0.1", inside, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			return err
		},
	})
	check.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.LogTail())
		}
		check.OK(t, p.Close())
	})
	return public, inside
}

// onLoopback replaces texts of cfg, and fails the test if one of them does not occur.
func onLoopback(t *testing.T, cfg string, replace ...string) string {
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(cfg, replace[i]) {
			t.Errorf("haproxy.cfg: got no %q, which this test replaces", replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(cfg)
}

// A kept is a connection of a client that sends several requests.
type kept struct {
	net.Conn
	answers *bufio.Reader
}

func dialFrom(ctx context.Context, from, to string) (*kept, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	end, _ := ctx.Deadline()
	return &kept{conn, bufio.NewReader(conn)}, conn.SetDeadline(end)
}

// ask sends text and returns the next answer.
func (k *kept) ask(text string) (status int, header http.Header, body string, err error) {
	if _, err = io.WriteString(k, text); err != nil {
		return 0, nil, "", err
	}
	method, _, _ := strings.Cut(text, " ")
	return k.answer(method)
}

// answer reads the next answer, to a request with this method.
func (k *kept) answer(method string) (status int, header http.Header, body string, err error) {
	r, err := http.ReadResponse(k.answers, &http.Request{Method: method})
	if err != nil {
		return 0, nil, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, r.Header, string(b), err
}

// ask sends text on a new connection from the address from.
func ask(ctx context.Context, from, to, text string) (status int, body string, err error) {
	k, err := dialFrom(ctx, from, to)
	if err != nil {
		return 0, "", err
	}
	defer k.Close()
	status, _, body, err = k.ask(text)
	return status, body, err
}

// A request that may have been carried out is repeated only if that changes nothing. How
// the caller spells the path does not matter.
func TestProxyRepeatsRequests(t *testing.T) {
	var attempts atomic.Int32
	node := proxiedNode(t, func(w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		die(w)
	})
	_, inside := startProxy(t, node, node)
	const once, thrice = 1, 3
	for request, want := range map[string]int32{
		"GET /v1/orders":                                 thrice,
		"HEAD /v1/sales/s":                               thrice,
		"POST /v1/orders/0192/pay":                       thrice,
		"POST /v1/orders/0192/cancel":                    thrice,
		"POST /v1/%6frders/0192/%70ay":                   thrice,
		"POST /v1/orders key":                            thrice,
		"POST /v1/%6frders key":                          thrice,
		"POST /v1/orders":                                once,
		"POST /v1/%6frders":                              once,
		"POST /v1%2forders":                              once,
		"POST /%76%31/orders":                            once,
		"POST /v1/orders?x=/v1/orders/0192/pay":          once,
		"POST http://x/v1/orders":                        once,
		"POST /v1/orders;x":                              once,
		"POST /v1/orders/":                               once,
		"POST /v1/orders empty":                          once,
		"PUT /v1/admin/sales/s":                          once,
		"PUT /v1/admin/sales/s key":                      once,
		"POST /v1/admin/sales/s/close":                   once,
		"POST /v1/admin/sales/v1%2forders%2f0192%2fpay/": once,
		"DELETE /demo/crowd":                             once,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, key, _ := strings.Cut(rest, " ")
		head := map[string]string{"key": "Idempotency-Key: k\r\n", "empty": "Idempotency-Key: \t \r\n"}[key]
		attempts.Store(0)
		status, _, err := ask(check.Context(t), "127.0.0.1", inside,
			fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 2\r\nConnection: close\r\n\r\n{}", method, path, head))
		if got := attempts.Load(); err != nil || status != http.StatusServiceUnavailable || got != want {
			t.Errorf("%s, whose nodes die: got %d attempts, status %d, error %v, want %d attempts, status 503", request, got, status, err, want)
		}
	}
}

// HAProxy repeats only requests that it has received completely. If a node closes a
// connection after the head of an order, the order must not be lost with it.
func TestProxyRepeatsOrderOnKeptConnection(t *testing.T) {
	var orders atomic.Int32
	node := proxiedNode(t, func(w http.ResponseWriter, r *http.Request) {
		if orders.Add(1) == 2 {
			die(w)
			return
		}
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	})
	public, _ := startProxy(t, node, node)
	k, err := dialFrom(check.Context(t), "127.0.0.2", public)
	check.Must(t, err)
	defer k.Close()
	const order = "POST /v1/orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %d\r\nContent-Length: 2\r\n%s\r\n%s"
	if status, _, _, err := k.ask(fmt.Sprintf(order, 1, "", "{}")); err != nil || status != http.StatusOK {
		t.Fatalf("first order: got status %d, error %v, want 200", status, err)
	}
	// The answer 100 shows that the proxy has handled the head.
	if status, _, _, err := k.ask(fmt.Sprintf(order, 2, "Expect: 100-continue\r\n", "")); err != nil || status != http.StatusContinue {
		t.Fatalf("head of the second order: got status %d, error %v, want 100", status, err)
	}
	if status, _, body, err := k.ask("{}"); err != nil || status != http.StatusOK || body != "{}" || orders.Load() != 3 {
		t.Errorf("second order, whose first node dies: got status %d, body %q, error %v, %d attempts in all, want 200, {}, 3 attempts",
			status, body, err, orders.Load())
	}
}

// Prometheus reads the metrics of the proxy at the port that is not published.
func TestProxyHasMetrics(t *testing.T) {
	node := proxiedNode(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a node's page") })
	public, inside := startProxy(t, node, node)
	const get = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for to, want := range map[string]string{inside: `haproxy_frontend_http_responses_total{proxy="api",code="2xx"}`, public: "a node's page"} {
		if status, body, err := ask(check.Context(t), "127.0.0.2", to, get); err != nil || status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("/metrics at %s: got status %d, body %.200s, error %v, want 200 with %s", to, status, body, err, want)
		}
	}
}

// Errors of the proxy have the form of the API. The proxy does not speak HTTP/2.
func TestProxyErrorsAreProblems(t *testing.T) {
	node := proxiedNode(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
			return
		}
		die(w)
	})
	_, inside := startProxy(t, node, node, "timeout http-request 10s", "timeout http-request 2s", "timeout server 30s", "timeout server 2s")
	gone, err := servers.FreeAddr(t.Context())
	check.Must(t, err)
	_, without := startProxy(t, gone, gone)
	_, version := haproxy(t)
	type answer struct {
		send   string
		status int
		code   string
		id     bool
	}
	all := map[string]answer{
		"HTTP/2":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 400, "invalid_request", true},
		"TLS":                   {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 300), 400, "invalid_request", false},
		"malformed":             {"GET /\r\n\r\n", 400, "invalid_request", false},
		"a long head":           {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20_000) + "\r\n\r\n", 400, "invalid_request", false},
		"a long URL":            {"GET /" + strings.Repeat("a", 20_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_request", false},
		"a head without an end": {"GET / HTTP/1.1\r\nHost: x\r\n", 400, "invalid_request", false},
		"a body without an end": {"POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 400, "invalid_request", true},
		"a node that dies":      {"GET /v1/sales HTTP/1.1\r\nHost: x\r\n\r\n", 503, "unavailable", true},
		"a node that hangs":     {"GET /hangs HTTP/1.1\r\nHost: x\r\n\r\n", 503, "unavailable", true},
		"no node":               {"GET /v1/sales HTTP/1.1\r\nHost: x\r\n\r\n", 503, "unavailable", true},
	}
	sent := map[string]*kept{} // the timeouts of all requests run at the same time
	for name, c := range all {
		if !c.id && strings.HasPrefix(version, "2.") {
			continue // HAProxy 2.6 of Debian 12 ignores errorfile before it has a complete head
		}
		to := inside
		if name == "no node" {
			to = without
		}
		k, err := dialFrom(check.Context(t), "127.0.0.1", to)
		check.Must(t, err)
		defer k.Close()
		check.Must(t, check.Err(io.WriteString(k, c.send)))
		sent[name] = k
	}
	for name, k := range sent {
		c := all[name]
		status, header, body, err := k.answer(http.MethodGet)
		var got struct {
			Status int
			Code   string
		}
		err = errors.Join(err, json.Unmarshal([]byte(body), &got))
		if err != nil || status != c.status || got.Status != c.status || got.Code != c.code || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got status %d, header %v, body %s, error %v, want a problem with status %d, code %s", name, status, header, body, err, c.status, c.code)
		}
		if id := header.Get("X-Request-Id"); (id != "") != c.id {
			t.Errorf("%s: got request id %q, want one: %v", name, id, c.id)
		}
	}
}

// One address cannot take all connections of the proxy. The bounds do not apply to a
// balancer and to the load test, whose addresses stand for many callers.
func TestProxyBoundsAddresses(t *testing.T) {
	node := proxiedNode(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Prefix"], r.Header["Traceparent"])
	})
	public, inside := startProxy(t, node, node)
	const get = "GET /v1/sales HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Prefix: /p\r\nTraceparent: t\r\n\r\n"
	const connections, requests = 2, 6

	// open opens connections and sends one request on each.
	open := func(n int, from, to, want string) (all []*kept) {
		for range n {
			k, err := dialFrom(check.Context(t), from, to)
			check.Must(t, err)
			t.Cleanup(func() { _ = k.Close() })
			if status, _, body, err := k.ask(get); err != nil || status != http.StatusOK || body != want {
				t.Fatalf("request from %s: got status %d, headers %s, error %v, want 200, %s", from, status, body, err, want)
			}
			all = append(all, k)
		}
		return all
	}
	held := open(connections, "127.0.0.2", public, "[127.0.0.2] [] []")
	if status, _, err := ask(check.Context(t), "127.0.0.2", public, get); err == nil {
		t.Errorf("connection beyond the bound: got status %d, want a closed connection", status)
	}
	open(1, "127.0.0.3", public, "[127.0.0.3] [] []")
	check.Must(t, held[0].Close())
	check.Eventually(t, "the address may open another connection", func() bool {
		status, _, err := ask(check.Context(t), "127.0.0.2", public, get)
		return err == nil && status == http.StatusOK
	})
	k := open(1, "127.0.0.4", public, "[127.0.0.4] [] []")[0]
	for range requests - 1 {
		if status, _, _, err := k.ask(get); err != nil || status != http.StatusOK {
			t.Fatalf("request within the bound: got status %d, error %v, want 200", status, err)
		}
	}
	status, header, body, err := k.ask(get)
	if err != nil || status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || header.Get("X-Request-Id") == "" || !strings.Contains(body, `"rate_limited"`) {
		t.Errorf("request beyond the bound: got status %d, header %v, body %s, error %v, want a problem with status 429", status, header, body, err)
	}
	open(requests+1, "127.0.0.7", public, "[203.0.113.7] [/p] []") // one of the balancers
	open(requests+1, "127.0.1.9", public, "[203.0.113.7] [/p] []")
	open(requests+1, "127.0.0.2", inside, "[203.0.113.7] [/p] [t]")
}
