package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// served runs a node on embedded stores for one test.
func served(t *testing.T) *app.App {
	t.Helper()
	s := servertest.Open(t, servers.KindEmbedded)
	node, err := app.New(app.Config{
		Addr: "127.0.0.1:0", Redis: s.RedisURL, SQL: s.SQL, Secret: trialSecret,
		Changes: true, Wait: 20 * time.Second, // a busy machine exceeds the default
		Log: check.Log(t),
	})
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("end of serve: got error %v, want none", err)
		}
	})
	check.Receive(t, "the node is ready", node.Ready())
	return node
}

// An operator creates, shows, restocks, audits and closes sales.
func TestOperatorsCommands(t *testing.T) {
	node := served(t)
	// does repeats a command while the server answers 503, as on a busy machine.
	does := func(args ...string) (out string, err error) {
		check.Eventually(t, "the server is not too busy", func() bool {
			out, _, err = command(t, append(args, "--target", node.URL())...)
			return err == nil || !strings.Contains(err.Error(), "unavailable")
		})
		return out, err
	}
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := does(args...); err != nil || !strings.Contains(out, want) {
			t.Fatalf("command %v: got error %v, output\n%s\nwant output with %q", args, err, out, want)
		}
	}
	fails := func(want string, args ...string) {
		t.Helper()
		if out, err := does(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("command %v: got error %v, output\n%s\nwant an error with %q", args, err, out, want)
		}
	}
	must("Nothing is on sale", "sale", "show")
	fails("no sale sneaker at "+node.URL()+": `flashsale sale show` lists all sales", "audit", "sneaker")
	fails("--currency must be", "sale", "create", "sneaker", "--price", "1", "--total", "1", "--currency", "euro")
	must("price           129.00 EUR", "sale", "create", "sneaker", "--price", "12900", "--total", "10", "--per-buyer", "3")
	fails("on sale already", "sale", "create", "sneaker", "--price", "1", "--total", "99")
	for range 3 { // the server lists the sale a second after the last change
		must("sneaker", "sale", "show", "--all")
	}
	must("open", "sale", "show", "sneaker")
	fails("give a SKU or --all, not both", "sale", "show", "sneaker", "--all")
	fails("whole seconds", "sale", "create", "x", "--price", "1", "--total", "1", "--payment-window", "1500ms")

	id := buys(t, node, "ann", "sneaker", 2)
	must("pending_payment", "order", "show", id, "--buyer", "ann")
	fails("eve has no order "+id, "order", "show", id, "--buyer", "eve")
	must("ok      sneaker: total 10 = available 8", "audit", "sneaker")
	must("sold            2: 2 pending, 0 paid", "sale", "show", "sneaker")
	must("sold            unknown: the server does not accept the token", "sale", "show", "sneaker", "--secret", nodesSecret)

	fails("give --to UNITS, a new total, or --by", "sale", "restock", "sneaker")
	fails("can't be used together", "sale", "restock", "sneaker", "--to", "1", "--by", "1")
	must("10 of 12", "sale", "restock", "sneaker", "--by", "2")
	must("9 of 11", "sale", "restock", "sneaker", "--by", "-1")
	fails("sneaker has 11 units; --by -12 would leave -1", "sale", "restock", "sneaker", "--by", "-12")
	fails("the total must be 0 to", "sale", "restock", "sneaker", "--to", "-1")
	must("3 of 5", "sale", "restock", "sneaker", "--to", "5")
	fails("number of units sold, 2 (409 below_sold)", "sale", "restock", "sneaker", "--to", "1")
	must("closed", "sale", "close", "sneaker")
	must("closed", "sale", "close", "sneaker")
	must("closed  3", "sale", "show")
	must("scheduled", "sale", "create", "later", "--price", "1", "--total", "1", "--opens-at", "2037-01-01T00:00:00Z")
	must("closed", "sale", "close", "later")

	// Control characters in a name do not reach the terminal.
	must("name            a\ufffd[2Jgone\ufffd.", "sale", "create", "trick", "--price", "1", "--total", "1", "--name", "a\x1b[2Jgone\u202e.")
	must("  a\ufffd[2Jgone\ufffd.", "sale", "show")

	must("units taken on  payment", "sale", "create", "talk", "--price", "1", "--total", "5", "--reserve-on", "payment")
	buys(t, node, "ann", "talk", 1)
	must("total 5 = available 5", "audit", "talk")
	must("units taken on  payment", "sale", "restock", "talk", "--to", "6")
}

// Concurrent restocks read the same total, because a node caches it for a second. All units
// are added nevertheless, and the sale keeps its description and image.
func TestConcurrentRestocks(t *testing.T) {
	node := served(t)
	_, _, err := command(t, "sale", "create", "S", "--price", "1", "--total", "10", "--description", "A text", "--image", "/s.png", "--target", node.URL())
	check.Must(t, err)
	var operators sync.WaitGroup
	for range 4 {
		operators.Go(func() {
			_, _, err := command(t, "sale", "restock", "S", "--by", "1", "--target", node.URL())
			if err != nil && !strings.Contains(err.Error(), "unavailable") { // the change is stored if the machine is busy
				t.Errorf("restock: got error %v, want none or unavailable", err)
			}
		})
	}
	operators.Wait()
	out, _, err := command(t, "sale", "close", "S", "--target", node.URL())
	if check.Must(t, err); t.Failed() {
		return
	}
	contains(t, out, "of 14", "A text", "/s.png", "closed")
}

// If the sale is changed before each write, restock gives up with an error.
func TestRestockGivesUp(t *testing.T) {
	var puts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprintf(w, `{"sku":"S","total":10,"version":"%d"}`, puts.Load())
			return
		}
		if tag := fmt.Sprintf(`"%d"`, puts.Load()); r.Header.Get("If-Match") != tag {
			t.Errorf("restock: got If-Match %s, want %s", r.Header.Get("If-Match"), tag)
		}
		puts.Add(1)
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = w.Write([]byte(`{"code":"precondition_failed"}`))
	}))
	defer server.Close()
	restock := &saleRestock{SKU: "S", By: new(int64(1)), pause: time.Nanosecond}
	restock.Target = server.URL
	err := restock.Run(t.Context(), streams{})
	if contains(t, fmt.Sprint(err), "restock S: ", "412 precondition_failed"); puts.Load() != restockTries {
		t.Errorf("restock: got %d tries, want %d", puts.Load(), restockTries)
	}
}

// If another operator creates the sale at the same time, sale create changes nothing.
func TestCreateChangesNoSale(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if got := r.Header.Get("If-None-Match"); got != "*" {
			t.Errorf("create: got If-None-Match %q, want *", got)
		}
		w.WriteHeader(http.StatusPreconditionFailed)
	}))
	defer server.Close()
	refuses(t, []string{"sale", "create", "S", "--price", "1", "--total", "1", "--target", server.URL}, "S is on sale already")
}

// buys places an order, and returns its id.
func buys(t *testing.T, node *app.App, buyer, sku string, quantity int) string {
	t.Helper()
	token, err := node.Token(buyer, false)
	check.Must(t, err)
	body := fmt.Sprintf(`{"sku":%q,"quantity":%d}`, sku, quantity)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, node.URL()+"/v1/orders", strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	check.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	var order api.Order
	if err := json.NewDecoder(res.Body).Decode(&order); err != nil || order.Status != "pending_payment" {
		t.Fatalf("order at the server: got %d %+v, error %v, want a pending order", res.StatusCode, order, err)
	}
	return order.ID
}

// If the units do not add up, audit prints BROKEN and has exit status 1.
func TestAuditOfABrokenSale(t *testing.T) {
	sums := api.Audit{SKU: "S", Total: 10, Available: 3, Sold: 8, Paid: 8, Drift: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(sums) }))
	defer server.Close()
	out, _, err := command(t, "audit", "S", "--target", server.URL)
	if contains(t, out, "BROKEN", "drift -1"); !errors.Is(err, exitCode(1)) {
		t.Errorf("audit of a broken sale: got error %v, want exit status 1", err)
	}
	sums.Available, sums.Drift, sums.Balanced = 2, 0, true
	out, _, err = command(t, "audit", "S", "--target", server.URL)
	if check.Must(t, err); !strings.HasPrefix(out, "ok") {
		t.Errorf("audit of a sound sale: got output %q, want it to begin with ok", out)
	}
	sums.Direct = true
	direct, _, err := command(t, "audit", "S", "--target", server.URL)
	if check.Must(t, err); direct != strings.TrimSuffix(out, "\n")+" (direct mode)\n" {
		t.Errorf("audit in direct mode: got output %q, want %q and the mode", direct, out)
	}
}

func TestOperatorsMistakes(t *testing.T) {
	node := served(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"unauthorized", []string{"audit", "S", "--target", node.URL(), "--secret", "not the secret of that server, at all"}},
		{"http://localhost:8080", []string{"sale", "show", "--target", "localhost"}},
		{"no server at http://127.0.0.1:1: connection refused (flashsale serve starts a server)", []string{"sale", "show", "--target", "http://127.0.0.1:1"}},
		{"no server at http://127.0.0.1:1: connection refused (flashsale serve starts a server)", []string{"loadtest", "--quiet", "--target", "http://127.0.0.1:1"}},
		{"--buyer", []string{"order", "list"}},
	} {
		refuses(t, c.args, c.want)
	}
}

func TestMoney(t *testing.T) {
	for want, c := range map[string]struct {
		amount   int64
		currency string
	}{
		"129.00 EUR": {12900, "EUR"}, "0.05 USD": {5, "USD"}, "0.00 EUR": {0, "EUR"}, "129.00 COP": {12900, "COP"},
		"12900 JPY": {12900, "JPY"}, "12.900 KWD": {12900, "KWD"}, "0.012 BHD": {12, "BHD"}, "1.2900 CLF": {12900, "CLF"},
	} {
		if got := money(c.amount, c.currency); got != want {
			t.Errorf("money of %d: got %q, want %q", c.amount, got, want)
		}
	}
}

// The load test reports a proxy of the environment, without its password.
func TestLoadtestReportsProxy(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(check.Context(t), os.Args[0], "loadtest", "--target", "http://192.0.2.1", "--rate", "1")
	cmd.Env = append(os.Environ(), "HTTP_PROXY=http://u:hush@127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "hush") {
		t.Errorf("flashsale loadtest through a closed proxy: got error %v, want one, and no password:\n%s", err, out)
	}
	contains(t, string(out), "all requests go through the proxy http://u:xxxxx@127.0.0.1:1 of the environment")
}
