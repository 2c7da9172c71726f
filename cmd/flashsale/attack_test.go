package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// Flags override the values of the scenario.
func TestFlagsOverrideScenario(t *testing.T) {
	replays := 0.33
	f := attackFlags{Scenario: "bots", Replays: &replays, Quiet: true}
	c, err := f.config(streams{})
	check.Must(t, err)
	if c.Replays != replays || c.Buyers != 5000 || c.CancelShare != 0.2 || c.Scenario != "Bots" {
		t.Errorf("flags over the scenario: got replays %v, buyers %d, cancels %v, scenario %q, want %v, 5000, 0.2 and Bots",
			c.Replays, c.Buyers, c.CancelShare, c.Scenario, replays)
	}
}

// --serial is a limit of one call in flight.
func TestInFlightFlags(t *testing.T) {
	for want, f := range map[int]attackFlags{1: {Serial: true}, 7: {InFlight: 7}} {
		c, err := f.config(streams{})
		check.Must(t, err)
		if c.InFlight != want {
			t.Errorf("calls in flight of %+v: got %d, want %d", f, c.InFlight, want)
		}
	}
}

func TestScenarioFlags(t *testing.T) {
	out, _, err := command(t, "demo", "--scenario", "list")
	if err != nil || !strings.Contains(out, "sneaker-drop") || strings.Contains(out, "VERDICT") {
		t.Errorf("--scenario list: got error %v, want the names of the scenarios\n%s", err, out)
	}
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"demo", "--scenario", "bots", "--rate", "5", "--stock", "7"}, "--stock, --rate: cannot be combined with --scenario"},
		{[]string{"loadtest", "--target", "http://127.0.0.1:1", "--scenario", "bots", "--sku", "mine"}, "--sku: cannot be combined with --scenario"},
		{[]string{"loadtest", "--target", "http://127.0.0.1:1", "--scenario", missing}, "no such file or example"},
		{[]string{"demo", "--shape", "wave"}, "wave"},
		{[]string{"demo", "--serial", "--in-flight", "3"}, "--serial and --in-flight can't be used together"},
		{[]string{"demo", "--fail-if", "speed>3"}, `--fail-if: "speed" is no figure of the JSON report`},
		{[]string{"loadtest", "--target", "http://127.0.0.1:1", "--lacks", "kees"}, `--lacks: unknown feature "kees"`},
		// These fail before the first request.
		{[]string{"loadtest", "--target", "http://127.0.0.1:1", "--report", os.Args[0] + "/out"}, "save the report in " + os.Args[0]},
		{[]string{"compare", "--report", os.Args[0] + "/out", "no-such-variant"}, "save the report in " + os.Args[0]},
	} {
		refuses(t, c.args, c.want)
	}
}

// demo plays a scenario with two sales and prints only JSON on stdout.
func TestDemoPlaysScenario(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "s.yaml")
	check.Must(t, os.WriteFile(scenario, []byte(`
name: Two
shares: {cancels: 0}
sales:
  - {sku: one, stock: 20, limit: 2, weight: 2}
  - {sku: two, stock: 10, limit: 1}
phases:
  - {shape: burst, rate: 100, for: 1s}
  - {rate: 100, for: 1s}
`), 0o644))
	var out bytes.Buffer
	var errs cue // safe for concurrent use: the server logs to errs as well
	err := run(t.Context(), []string{"demo", "--scenario", scenario, "--json"}, &out, &errs)
	var exit exitCode
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("flashsale demo --scenario: got error %v, want none or an exit status", err)
	}
	var doc struct {
		Pass  bool
		Sales []verdict
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Sales) != 2 || doc.Pass != (exit == 0) {
		t.Fatalf("flashsale demo --scenario: got error %v, exit status %d, want JSON of two sales with a pass exactly if the status is 0: %s", err, exit, &out)
	}
	for _, v := range doc.Sales {
		if len(v.Violations) != 0 || v.Durable == 0 || v.Changes == 0 {
			t.Errorf("sale of the demo: got verdict %+v, want durable orders, changes and no violations", v)
		}
	}
	contains(t, errs.written.String(), "attack: 200 to go")
}

// Ctrl-C ends the attack, and demo judges the orders up to then.
func TestDemoJudgesAfterCtrlC(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(check.Context(t), os.Args[0], "demo", "--rate", "100", "--duration", "10m", "--stock", "50", "--buyers", "1000")
	var out bytes.Buffer
	cmd.Stdout = &out
	// Interrupt when the progress reports the first responses.
	progress := &cue{word: " of 60,000, ", then: func() { _ = cmd.Process.Signal(os.Interrupt) }}
	cmd.Stderr = progress
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != judge.ExitUnjudged {
		t.Errorf("demo after Ctrl-C: got error %v, want exit status %d\n%s", err, judge.ExitUnjudged, &progress.written)
	}
	contains(t, out.String(), "VERDICT: NOT JUDGED", "interrupted: the run was stopped early")
}

// A cue is an io.Writer that calls then once, as soon as the text written to it matches
// word. It is safe for concurrent use.
type cue struct {
	mu      sync.Mutex
	written bytes.Buffer
	word    string // a regular expression
	then    func()
}

func (c *cue) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.written.Write(p)
	if c.then != nil && regexp.MustCompile(c.word).Match(c.written.Bytes()) {
		c.then()
		c.then = nil
	}
	return n, err
}
