package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/loadtest"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// patience is the time limit of load tests, long enough for a slow server.
const patience = 5 * time.Minute

const nodesSecret = "a secret of these tests, 32 bytes long at least"

// asProgram is the environment variable that makes the test binary run main, so that tests
// can start and kill processes of the program. TestMain sets it for all child processes.
const asProgram = "TEST_AS_FLASHSALE"

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	adjustAttack = func(c *loadtest.Config) {
		c.InFlight, c.Timeout, c.Patience = cmp.Or(c.InFlight, 16), patience, patience
		if strings.Contains(c.Command, "--strategy") {
			c.Repair = time.Millisecond // no broken variant repairs its drift
		}
	}
	if mode := os.Getenv(asProgram); mode != "" {
		if mode == saboteur {
			go sabotage(os.Args[slices.Index(os.Args, "--mysql")+1])
		}
		main()
		os.Exit(0)
	}
	if err := errors.Join(os.Setenv(asProgram, "1"), os.Setenv("GOGC", "400")); err != nil { // faster, and the nodes' heaps are small
		panic(err)
	}
	servertest.Main(m)
}

// command runs a command of the program in this process. It restores the environment
// afterwards, because some commands call cleanEnvironment.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "FLASHSALE_") {
			defer func() {
				if err := os.Setenv(name, value); err != nil {
					t.Errorf("set the variable %s: got error %v, want none", name, err)
				}
			}()
		}
	}
	var out, errs bytes.Buffer
	err = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}, {"help", "sale", "create"}, {"serve", "--help"}, {"demo", "--help"}, {"loadtest", "--help"}, {"token", "--help"}, {"migrate", "--help"}, {"drill", "--help"}, {"compare", "--help"}} {
		out, _, err := command(t, args...)
		if err != nil || !strings.Contains(out, "Usage: flashsale") {
			t.Errorf("flashsale with the arguments %v: got error %v, want the usage\n%s", args, err, out)
		}
	}
	if out, _, _ := command(t, "serve", "--help"); !strings.Contains(out, "FLASHSALE_LIMIT_BUYER") || !strings.Contains(out, "5/s:10") {
		t.Errorf("help of serve: got no variable FLASHSALE_LIMIT_BUYER with its default:\n%s", out)
	}
	// A help names only the variables that its command needs.
	for line, want := range map[string]int{"serve": 2, "loadtest": 2, "demo": 0, "audit": 2, "sale restock": 2, "token": 1, "bench": 0} {
		out, _, err := command(t, strings.Fields(line+" --help")...)
		if got := strings.Count(out, "FLASHSALE_"); err != nil || got != want {
			t.Errorf("flashsale %s --help: got error %v and %d variables, want %d:\n%s", line, err, got, want, out)
		}
	}
	if out, _, _ := command(t, "sale", "restock", "--help"); strings.Contains(out, "--to=UNITS --by=UNITS") {
		t.Errorf("usage of restock: got both --to and --by required, want either:\n%s", out)
	}
}

func TestBadUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sell"}, "(flashsale --help)"},
		{[]string{"token"}, "--buyer"},
		{[]string{"token", "--buyer", "a b"}, "--buyer: the subject"},
		{[]string{"token", "--buyer", "ann", "--secret", "short"}, "32"},
		{[]string{"token", "--buyer", "ann", "--ttl", "745h"}, "--ttl: the lifetime is 745h0m0s, want 1s to 744h0m0s"},
		{[]string{"serve", "--no-demo"}, "FLASHSALE_SECRET"},
		{[]string{"serve", "--pay-scope", "pay please"}, "pay-scope"},
		{[]string{"serve", "--trace-url", "javascript://{order}"}, "trace-url"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--secret", nodesSecret + "\r"}, "--secret: the value contains a carriage return"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--previous-secret", nodesSecret + " "}, "--previous-secret: the value contains a carriage return"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--token-issuer", "\ufeffshop"}, "--token-issuer: the value contains a carriage return"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--token-audience", "shop\u200b"}, "--token-audience: the value contains a carriage return"},
		{[]string{"loadtest", "--target", "nonsense", "--secret", nodesSecret + "\r"}, "--secret: the value contains a carriage return"},
		{[]string{"token", "--buyer", "ann", "--scope", "payments "}, "--scope: the value contains a carriage return"},
		{[]string{"serve", "--redis", "redis://:@localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", nodesSecret}, "empty password"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", nodesSecret, "--previous-secret", trialSecret}, "public secret"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", nodesSecret, "--previous-secret", "EXAMPLE-of-a-secret-32-bytes-or-longer"}, "--secret: this is the public example"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", nodesSecret, "--previous-secret", "short"}, "32"},
		{[]string{"demo", "--stock", "0"}, "--stock: 0, want"},
		{[]string{"demo", "--limit", "1", "--max-quantity", "2"}, "--max-quantity: 2, want 1..--limit"},
		{[]string{"demo", "--limit-shadow", "buy"}, "--limit-shadow: unknown route"},
		{[]string{"demo", "--strategy", "magic"}, "--strategy: "},
		{[]string{"demo", "--reserve-on", "delivery"}, "reserve-on"},
		{[]string{"serve", "--limit-buyer", "lots"}, "limit"},
		{[]string{"serve", "--limit-when-redis-down", "place=ajar"}, "open, closed, local"},
		{[]string{"serve", "--limit-when-redis-down", "place"}, "ROUTE=POLICY"},
		{[]string{"serve", "--limit-when-redis-down", "buy=open"}, "pay, place, read"},
		{[]string{"serve", "--limit-shadow", "buy"}, "--limit-shadow: unknown route"},
		{[]string{"serve", "--redis", "redis://localhost:1"}, "both"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d"}, "FLASHSALE_SECRET"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", trialSecret}, "public secret"},
		{[]string{"serve", "--redis", "redis://localhost:1", "--mysql", "u:p@tcp(localhost:1)/d", "--secret", "EXAMPLE-of-a-secret-32-bytes-or-longer"}, "--secret: this is the public example"},
		{[]string{"serve", "--redis", "redis://:example@localhost:1", "--mysql", "u:example@tcp(localhost:1)/d", "--secret", nodesSecret, "--no-demo"}, "--redis, --mysql: this is the public example"},
		{[]string{"serve", "--webhook", "shop=https://shop.example"}, "--webhook: needs --changes"},
		{[]string{"serve", "--changes", "--webhook", "shop=http://shop.example", "--no-demo", "--secret", nodesSecret}, "--webhook: want NAME=URL"},
		{[]string{"webhook", "secret", "shop", "--secret", "short"}, "32"},
		{[]string{"loadtest", "--target", "nonsense"}, "the target"},
		{[]string{"loadtest", "--payments", "-0.5"}, "--payments: -0.5, want"},
		{[]string{"drill", "--rate", "0"}, "--rate: 0, want"},
		{[]string{"bench", "--rounds", "0"}, "--rounds: 0, want"},
		{[]string{"serve", "--lease=1ms", "--trusted-proxies", "x"}, "--trusted-proxies: invalid IP address: x\n--lease: 1ms is below 1s"},
		{[]string{"sale", "create", "S", "--price=-5", "--total=-3", "--for", "-1x"}, "--for: expected duration"},
		{[]string{"sale", "create", "S", "--opens-at", "noon"}, `--opens-at: "noon" is not a time such as`},
		{[]string{"sale", "create", "S"}, "(flashsale sale create --help)"},
		{[]string{"sale"}, "(flashsale sale --help)"},
		{[]string{"drill", "--rate", "abc"}, `--rate: expected a whole number but got "abc"`},
		{[]string{"serve", "--addr", "8080"}, "--addr: address 8080: missing port in address (want HOST:PORT, such as :8080)"},
		{[]string{"serve", "--metrics-addr", "9090"}, "--metrics-addr: address 9090: missing port in address (want HOST:PORT, such as :8080)"},
		{[]string{"order", "pay"}, "missing: --buyer=NAME, --ref=TEXT, <id> (flashsale order pay --help)"},
		{[]string{"buy"}, "<sku> is missing: SKU of the sale; flashsale sale show lists all sales (flashsale buy --help)"},
		{[]string{"sale", "create", "S", "--price", "1", "--total", "0"}, "--total: 0, want at least 1 unit"},
		{[]string{"order", "pay", "x"}, "missing: --buyer=NAME, --ref=TEXT (flashsale"},
		{[]string{"--quiet", "demo"}, "put --quiet after the command (flashsale --help)"},
		{[]string{"sale", "--all", "show"}, "put --all after the command (flashsale sale --help)"},
		{[]string{"--nonsense", "sale", "show"}, "unknown flag --nonsense"},
		{[]string{"drill", "nope"}, `unknown drill "nope", want one of `},
		{[]string{"drill", "nope"}, ", storm"},
		{[]string{"migrate", "--mysql", "nonsense"}, "--mysql: "},
	} {
		refuses(t, c.args, c.want)
	}
	// A wrong flag is reported without a warning or progress before the error.
	for _, line := range []string{"drill nope", "serve --addr 8080", "serve --addr 8080 --demo --redis redis://localhost:1 --mysql u:p@tcp(localhost:1)/d --secret " + strings.ReplaceAll(nodesSecret, " ", "-")} {
		if out, stderr, err := command(t, strings.Fields(line)...); err == nil || out+stderr != "" {
			t.Errorf("flashsale %s: got error %v and output %q, want an error and no output", line, err, out+stderr)
		}
	}
}

func TestToken(t *testing.T) {
	verifier, err := auth.New(auth.Config{Secret: []byte(nodesSecret)})
	check.Must(t, err)
	for want, args := range map[string][]string{
		"ann ":                          {"--buyer", "ann"},
		"operator " + auth.ScopeAdmin:   {"--admin"},
		"psp payments":                  {"--buyer", "psp", "--scope", "payments"},
		"x payments " + auth.ScopeAdmin: {"--buyer", "x", "--scope", "payments", "--admin", "--ttl", "1000h", "--token-life", "1000h"},
	} {
		out, _, err := command(t, append([]string{"token", "--secret", nodesSecret}, args...)...)
		if err != nil {
			t.Errorf("flashsale token with %v: got error %v, want none", args, err)
			continue
		}
		who, err := verifier.Verify(strings.TrimSpace(out))
		if slices.Contains(args, "1000h") {
			if err == nil {
				t.Error("token that is valid for longer than --token-life: got no error, want one")
			}
			continue
		}
		if err != nil || who.Buyer+" "+who.Scope != want {
			t.Errorf("flashsale token with %v: got token of %+v, error %v, want %s", args, who, err, want)
		}
	}
}

// verdict is the demo's JSON.
type verdict struct {
	Pass       bool
	Stores     string
	Violations []struct{ Name, Detail string }
	Answers    map[string]int
	Durable    int
	Changes    int
	Paid       int
	Pending    int
	Versions   string `json:"store_versions"`
	Command    string
	Program    string
	Seed       int64
	Cores      int
}

// demo sells 50 units in a closed loop of 240 orders.
func demo(t *testing.T, args ...string) (v verdict, err error) {
	t.Helper()
	args = append([]string{"demo", "--json", "--quiet", "--stock", "50", "--rate", "240", "--duration", "1s"}, args...)
	out, log, err := command(t, args...)
	if jsonErr := json.Unmarshal([]byte(out), &v); jsonErr != nil {
		t.Fatalf("flashsale demo with %v: got error %v, want a JSON verdict: %s\n%s", args, errors.Join(err, jsonErr), out, log)
	}
	if strings.Contains(log, "report written") {
		t.Errorf("flashsale demo --quiet: got progress, want none:\n%s", log)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\nthe node's log:\n%s", out, log)
		}
	})
	return v, err
}

// demoOn runs a demo on stores of one kind, which must pass.
func demoOn(t *testing.T, kind string, args ...string) verdict {
	t.Helper()
	if kind == servers.KindReal {
		servertest.OpenSQL(t, kind) // skips the test if the servers are not installed
		args = append(args, "--real")
	}
	v, err := demo(t, args...)
	if err != nil || !v.Pass || v.Stores != kind {
		t.Fatalf("flashsale demo: got error %v, verdict %+v, want a pass on %s stores", err, v, kind)
	}
	return v
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for _, kind := range servertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			v := demoOn(t, kind, "--report", dir)
			if v.Durable == 0 || v.Changes == 0 || v.Answers["201"] == 0 || v.Seed != 1 || v.Cores == 0 {
				t.Errorf("verdict of the demo: got %+v, want orders, changes, answers, seed and cores", v)
			}
			contains(t, v.Command, "flashsale demo --json --quiet --stock 50 ", "--report "+dir)
			contains(t, v.Program, "flashsale", "go1.")
			contains(t, v.Versions, map[string]string{servers.KindEmbedded: "SQLite", servers.KindReal: "Redis "}[kind])
			if page, err := os.ReadFile(dir + "/report.html"); err != nil || !bytes.Contains(page, []byte("PASS")) {
				t.Errorf("report.html of the demo: got error %v or a page without PASS, want a page with PASS", err)
			}
		})
	}
}

func TestDemoOnPayment(t *testing.T) {
	t.Parallel()
	if v := demoOn(t, servertest.Kinds()[0], "--reserve-on", "payment"); v.Paid != 50 || v.Pending != 0 {
		t.Errorf("verdict of the demo on payment: got %+v, want 50 paid units and none pending", v)
	}
}

// Each broken strategy fails with its own violation. If cancellations hide an oversell
// before the sale is at rest, only the history of the responses shows it.
func TestBrokenStrategiesAreCaught(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ strategy, on, violations string }{
		{"decr-leak", "order", "undersold"},
		{"get-decr", "order", "oversold|history"},
		{"no-limit", "order", "over_limit"},
		{"get-decr", "payment", "oversold|history"},
		{"no-limit", "payment", "over_limit"},
	} {
		t.Run(c.strategy+" on "+c.on, func(t *testing.T) {
			t.Parallel()
			v, err := demo(t, "--strategy", c.strategy, "--reserve-on", c.on)
			var exit exitCode
			for more := 4; more > 0 && errors.As(err, &exit) && exit == judge.ExitUnjudged; more-- { // too few orders met on a busy machine
				v, err = demo(t, "--strategy", c.strategy, "--reserve-on", c.on)
			}
			if !errors.As(err, &exit) || exit != judge.ExitViolation {
				t.Errorf("exit status of a broken strategy: got error %v, want the status of a violation", err)
			}
			if v.Pass || !regexp.MustCompile(`\{(`+c.violations+`) `).MatchString(fmt.Sprint(v.Violations)) {
				t.Errorf("verdict of a broken strategy: got pass %v, violations %v, want %s", v.Pass, v.Violations, c.violations)
			}
		})
	}
}

// needReal skips the test if FLASHSALE_TEST_REAL=off.
func needReal(t *testing.T) {
	t.Helper()
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
}

// skipUnlessInstalled skips the test if err reports that a server is not installed, unless
// FLASHSALE_TEST_REAL=require.
func skipUnlessInstalled(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require" {
		t.Skip(err)
	}
}

// separateTest is the environment variable with the name of the test that this process runs.
const separateTest = "TEST_RUNS_APART"

// inSeparateProcess runs a test that changes the environment in a separate process, in parallel to
// other tests. It reports whether this is that process. If it returns false, the test has
// run there and must return.
func inSeparateProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(separateTest) == t.Name() {
		return true
	}
	t.Parallel()
	args := []string{"-test.v", "-test.run=^" + t.Name() + "$"}
	if end, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprint("-test.timeout=", time.Until(end)))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), separateTest+"="+t.Name(), asProgram+"=")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	switch ended := func(how string) bool { return bytes.Contains(out, []byte("--- "+how+": "+t.Name()+" ")) }; {
	case err == nil && ended("SKIP"):
		t.Skip("skipped in the separate process")
	case err != nil || !ended("PASS"):
		t.Fatal("test in a separate process: got a failure, want a pass: ", err)
	}
	return false
}

// leaves fails the test unless the directory for temporary files has n entries.
func leaves(t *testing.T, n int) {
	t.Helper()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != n {
		t.Errorf("temporary directory: got %v, error %v, want %d entries", left, err, n)
	}
}

// contains fails the test unless text contains all words.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("output: got no %q in\n%s", word, text)
		}
	}
}

// refuses fails the test unless a command returns an error that contains all words, before it has
// started stores.
func refuses(t *testing.T, args []string, words ...string) {
	t.Helper()
	_, stderr, err := command(t, args...)
	contains(t, fmt.Sprint(err), words...)
	if strings.Contains(strings.ToLower(stderr), "stores: ") {
		t.Errorf("refused command: got stores, want none:\n%s", stderr)
	}
	if t.Failed() {
		t.Logf("failed command: flashsale %v", args)
	}
}
