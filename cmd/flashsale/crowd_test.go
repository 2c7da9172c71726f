package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// serving starts a server on embedded stores in a process of its own, and returns
// its URL.
func serving(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--addr", "127.0.0.1:0"}, flags...)...)
	ready := make(chan struct{})
	log := &cue{word: "msg=serving", then: func() { close(ready) }}
	cmd.Stderr = log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	check.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // t.Context has ended
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatalf("no server after a minute:\n%s", &log.said)
	}
	return regexp.MustCompile(`msg=serving url=(\S+)`).FindStringSubmatch(log.text())[1]
}

func (c *cue) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

// turnout is what a crowd prints.
var turnout = regexp.MustCompile(`^[1-9]\d* orders, [1-9]\d* sold out, \d+ refused, \d+ failed\n$`)

// Serve and loadtest work together as they are. A crowd goes to a sale, and not to
// one that a load test judges.
func TestServeWithLoadtestAndCrowd(t *testing.T) {
	t.Parallel()
	url := serving(t)
	if out, _, err := command(t, "loadtest", "--target", url, "--quiet", "--sku", "judged", "--stock", "50", "--rate", "300", "--duration", "1s"); err != nil {
		t.Errorf("loadtest: %v\n%s", err, out)
	}
	refuses(t, []string{"crowd", "judged", "--target", url}, "a load test judges judged")
	_, _, err := command(t, "sale", "create", "shoe", "--target", url, "--price", "100", "--total", "40", "--per-buyer", "2")
	check.Must(t, err)
	out, errs, err := command(t, "crowd", "shoe", "--target", url, "--rate", "100", "--duration", "2s")
	if err != nil || !turnout.MatchString(out) {
		t.Errorf("%v, %q", err, out)
	}
	says(t, errs, "crowd: 100 orders per second for shoe, for 2s")

	cmd := exec.CommandContext(t.Context(), os.Args[0], "crowd", "shoe", "--target", url, "--duration", "10m")
	var ended bytes.Buffer
	cmd.Stdout = &ended
	cmd.Stderr = &cue{word: " left\n", then: func() { _ = cmd.Process.Signal(os.Interrupt) }}
	if err := cmd.Run(); err != nil || !strings.HasSuffix(ended.String(), " failed\n") {
		t.Errorf("Ctrl-C: %v, %q", err, &ended)
	}
}

// With --visitors a load test goes on among other people, and says how many.
func TestLoadtestAmongVisitors(t *testing.T) {
	t.Parallel()
	url := serving(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "loadtest", "--visitors", "--target", url, "--sku", "open", "--json",
		"--stock", "500", "--rate", "100", "--duration", "8s")
	begun := make(chan struct{})
	errs := &cue{word: "attack:", then: func() { close(begun) }}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, errs
	check.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatalf("%v: %s", err, errs.text())
	}
	if _, _, err := command(t, "crowd", "open", "--target", url, "--rate", "50", "--duration", "2s"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v: %s\n%s", err, &out, errs.text())
	}
	var doc struct {
		Pass          bool
		VisitorOrders int `json:"visitor_orders"`
		VisitorUnits  int `json:"visitor_units"`
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || !doc.Pass || doc.VisitorOrders == 0 || doc.VisitorUnits == 0 {
		t.Errorf("%v: %s", err, &out)
	}
}

// A server that sees one address for all is not attacked.
func TestLoadtestTellsWhichFlagToSet(t *testing.T) {
	t.Parallel()
	url := serving(t, "--trusted-proxies", "192.0.2.1", "--limit-ip", "1/s:10") // however slow this machine is
	refuses(t, []string{"loadtest", "--target", url, "--rate", "300", "--duration", "1s"}, "--trusted-proxies")
}
