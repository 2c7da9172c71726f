package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/drill"
	"flashsale/loadtest"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

const nodesSecret = "a secret of these tests, 32 bytes long at least"

// A process is one `flashsale serve` of its own.
type process struct {
	t    *testing.T
	name string
	args []string
	url  string
	cmd  *exec.Cmd
	done chan struct{}
}

func startProcess(t *testing.T, s *servers.Stores, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, args: append([]string{
		"serve", "--addr", "127.0.0.1:" + freePort(t), "--node", name, "--redis", s.RedisURL, "--mysql", s.SQL,
		"--trusted-proxies", "127.0.0.1", "--log-level", "WARN",
	}, args...)}
	p.url = "http://" + p.args[2]
	p.start()
	t.Cleanup(func() { p.signal(syscall.SIGKILL); <-p.done })
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts the process, again if need be, and waits until it takes requests.
func (p *process) start() {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(self, p.args...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "FLASHSALE_SECRET="+nodesSecret)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if os.Getenv("FLASHSALE_TEST_LOG") != "" {
				fmt.Fprintln(os.Stderr, p.name, lines.Text())
			}
		}
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
	until(p.t, 20*time.Second, p.name+" is ready", func() bool {
		res, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// metric reads one value of /metrics.
func (p *process) metric(name string) (v float64) {
	p.t.Helper()
	res, err := http.Get(p.url + "/metrics")
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			_, _ = fmt.Sscan(value, &v)
		}
	}
	return v
}

func until(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(most); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", most, what)
		}
	}
}

// balance is the drills' proxy in front of several nodes.
func balance(t *testing.T, nodes ...*process) string {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.url)
	}
	b, err := drill.Balance(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.URL()
}

// attack runs the load test through the proxy while harm is done to the nodes.
func attack(t *testing.T, target string, harm func()) {
	t.Helper()
	verifier, err := auth.New([]byte(nodesSecret), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := loadtest.Defaults()
	c.Target, c.Stock, c.Buyers, c.Rate, c.Duration = target, 2000, 5000, 800, 6*time.Second
	c.Token = func(subject string, admin bool) (string, error) { return verifier.Sign(subject, admin, time.Hour) }
	var wg sync.WaitGroup
	wg.Go(harm)
	report, err := loadtest.Run(t.Context(), c)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if report.ExitCode() != 0 {
		var text strings.Builder
		_ = report.WriteText(&text)
		t.Errorf("verdict:\n%s", text.String())
	}
}

// Three nodes on one Redis and MySQL: keepers spread, callers are told across
// nodes, and the verdict holds while one is killed and started again and
// another is stopped gently. Their clocks make no difference: no node's clock
// is asked for anything that is shared.
func TestThreeNodes(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	const lease = 3 * time.Second
	var nodes []*process
	for _, name := range []string{"one", "two", "three"} {
		nodes = append(nodes, startProcess(t, s, name, "--lease", lease.String()))
	}
	target := balance(t, nodes...)

	const skus = 24
	c := &client{t: t, target: target}
	for i := range skus {
		c.put(fmt.Sprint("sku-", i))
	}
	until(t, 10*time.Second, "each node keeps its share", func() bool {
		total := 0.0
		for _, n := range nodes {
			kept := n.metric("flashsale_keeper_skus")
			if kept == 0 {
				return false
			}
			total += kept
		}
		return total == skus
	})

	t.Run("one killed and started again", func(t *testing.T) {
		attack(t, target, func() {
			delay(t, 2*time.Second)
			nodes[0].signal(syscall.SIGKILL)
			<-nodes[0].done
			delay(t, time.Second)
			nodes[0].start()
		})
	})
	t.Run("one stopped gently and started again", func(t *testing.T) {
		attack(t, target, func() {
			delay(t, 2*time.Second)
			nodes[1].signal(syscall.SIGTERM)
			<-nodes[1].done
			nodes[1].start()
		})
	})
	t.Run("taken over within one lease", func(t *testing.T) {
		until(t, 10*time.Second, "all is kept", func() bool {
			return nodes[0].metric("flashsale_keeper_skus")+nodes[1].metric("flashsale_keeper_skus")+nodes[2].metric("flashsale_keeper_skus") >= skus &&
				nodes[2].metric("flashsale_keeper_skus") > 0
		})
		nodes[2].signal(syscall.SIGKILL)
		died := time.Now()
		<-nodes[2].done
		for i := range skus {
			sku := fmt.Sprint("sku-", i)
			until(t, lease+2*time.Second, sku+" sells on", func() bool { return c.order(sku, "takeover") == 201 })
		}
		took := time.Since(died)
		t.Logf("all %d SKUs sell %s after the kill; the lease is %s", skus, took, lease)
		if took > lease+time.Second { // a second for a busy machine and the orders themselves
			t.Errorf("taken over after %s, the lease is %s", took, lease)
		}
	})
}

// delay lets load build up before the harm; there is nothing to wait for.
func delay(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// client makes single calls.
type client struct {
	t      *testing.T
	target string
}

func (c *client) send(method, path, subject string, admin bool, body, key string) int {
	c.t.Helper()
	verifier, err := auth.New([]byte(nodesSecret), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	token, err := verifier.Sign(subject, admin, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.target+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			c.t.Errorf("%s %s: %v", method, path, err)
		}
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func (c *client) put(sku string) {
	c.t.Helper()
	now := time.Now().UTC()
	body := fmt.Sprintf(`{"name":"A thing","price":1999,"currency":"EUR","total":1000,"per_buyer_limit":2,"opens_at":%q,"closes_at":%q,"payment_window_s":900}`,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	if status := c.send("PUT", "/v1/admin/sales/"+sku, "operator", true, body, ""); status != 201 {
		c.t.Fatalf("put %s: %d", sku, status)
	}
}

func (c *client) order(sku, key string) int {
	return c.send("POST", "/v1/orders", "buyer-of-"+sku, false, `{"sku":"`+sku+`","quantity":1}`, key)
}
