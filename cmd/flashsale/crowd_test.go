package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/servers/servertest/check"
)

// serving starts a server on embedded stores in a separate process and returns its URL.
func serving(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--addr", "127.0.0.1:0"}, flags...)...)
	ready := make(chan struct{})
	log := &cue{word: "msg=serving", then: func() { close(ready) }}
	cmd.Stderr = io.MultiWriter(log, check.Output(t))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	check.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // t.Context has ended
	check.Receive(t, "the server is ready", ready)
	if flags == nil { // a demo on a loopback address
		contains(t, log.text(), "demo=true", `trusted-proxies="[127.0.0.1 ::1]"`)
	}
	if strings.Contains(log.text(), "/ops") {
		t.Error("output of serve that is not a terminal: got the addresses of the pages, want none")
	}
	return regexp.MustCompile(`msg=serving url=(\S+)`).FindStringSubmatch(log.text())[1]
}

func (c *cue) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written.String()
}

var turnout = regexp.MustCompile(`^[1-9]\d* orders, [1-9]\d* sold out, \d+ refused, \d+ failed\n$`)

// serve and loadtest work together without flags. crowd sends buyers to a sale, but refuses
// the sale of a load test.
func TestServeWithLoadtestAndCrowd(t *testing.T) {
	t.Parallel()
	url := serving(t)
	if out, _, err := command(t, "loadtest", "--target", url, "--quiet", "--sku", "judged", "--stock", "50", "--rate", "240", "--duration", "1s"); err != nil {
		t.Errorf("flashsale loadtest against serve: got error %v, want none:\n%s", err, out)
	}
	refuses(t, []string{"crowd", "judged", "--target", url}, "no open sale") // the load test has closed its sale
	_, _, err := command(t, "sale", "create", "running", "--target", url, "--price", "100", "--total", "1", "--per-buyer", "2", "--name", client.JudgedNamePrefix+"Shoe")
	check.Must(t, err)
	refuses(t, []string{"crowd", "running", "--target", url}, "a load test judges running")
	_, _, err = command(t, "sale", "create", "shoe", "--target", url, "--price", "100", "--total", "1", "--per-buyer", "2")
	check.Must(t, err)
	ctx, leave := context.WithCancel(check.Context(t)) // as by Ctrl-C, once a buyer has received "sold out"
	defer leave()
	out, errs := check.Output(t), &cue{word: `[1-9]\d* orders, [1-9]\d* sold out`, then: leave}
	err = run(ctx, []string{"crowd", "shoe", "--target", url, "--rate", "100", "--duration", "10h"}, out, errs)
	if err != nil || !turnout.MatchString(out.String()) {
		t.Errorf("flashsale crowd: got error %v, output %q, want a turnout", err, out)
	}
	contains(t, errs.text(), "crowd: 100 orders per second for shoe, for 10h")
}

// With --visitors, a load test accepts orders of other buyers, and reports their number. The
// server accepts tokens for twenty minutes at most, which is enough for every command.
func TestLoadtestWithVisitors(t *testing.T) {
	t.Parallel()
	const life = "20m"
	url := serving(t, "--token-life", life)
	visit := func() { // called before the first order of the attack
		_, _, err := command(t, "buy", "open", "--target", url, "--buyer", "visitor", "--quantity", "2")
		check.OK(t, err)
	}
	out, errs := check.Output(t), &cue{word: "attack:", then: visit}
	err := run(check.Context(t), []string{"loadtest", "--visitors", "--token-life", life, "--target", url, "--sku", "open", "--json", "--stock", "50", "--rate", "240", "--duration", "1s"}, out, errs)
	var doc struct {
		Pass          bool
		VisitorOrders int `json:"visitor_orders"`
		VisitorUnits  int `json:"visitor_units"`
	}
	if jsonErr := json.Unmarshal([]byte(out.String()), &doc); err != nil || jsonErr != nil || !doc.Pass || doc.VisitorOrders != 1 || doc.VisitorUnits != 2 {
		t.Errorf("flashsale loadtest with visitors: got error %v, JSON error %v, want a pass with one order of 2 units by a visitor\n%s", err, jsonErr, errs.text())
	}
}

// If the server does not trust X-Forwarded-For, loadtest fails and names the flag.
func TestLoadtestNamesFlagToSet(t *testing.T) {
	t.Parallel()
	url := serving(t, "--trusted-proxies", "192.0.2.1", "--limit-ip", "1/s:10") // low enough for a slow machine
	refuses(t, []string{"loadtest", "--target", url, "--rate", "300", "--duration", "1s"}, "--trusted-proxies")
}
