// Package model_test searches three models with Spin: sale.pml describes what packages orders
// and inventory do to MySQL and Redis, refusal.pml describes final refusals, and coalesce.pml
// describes callers that share calls. See README.md.
package model_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

var (
	model  = flag.String("model", "sale.pml", "the model that -search searches")
	search = flag.String("search", "", "parameters of one search of the model, such as 'ORDERS=2 TAKES=2 ROLLS=1', instead of the usual searches")
	memory = flag.String("memory", "4000", "memory limit of a search, in MB")
)

// A setting is one search of a model. The right design passes it, and each of its broken
// twins fails it. A name with REACHES_ is a sanity check, not a twin.
type setting struct {
	about, parameters string
	twins             []string
}

// searches are the searches of sale.pml, which are small enough for every test run.
var searches = []setting{
	{"keepers overlap and die", "ORDERS=1 SWEEPS=1 TAKES=2 CRASHES=1",
		[]string{"NO_FENCE", "NO_HOLD_CHECK", "NO_STATUS_CONDITION", "MARKED_BEFORE_RELEASE", "MARKED_UNANSWERED"}},
	{"Redis goes back", "ORDERS=2 ROLLS=1",
		[]string{"NO_CONDITIONAL_SALE", "ANSWERED_BEFORE_COMMIT", "SUMS_ONLY"}},
	{"Redis goes back and a keeper dies", "ORDERS=1 ROLLS=1 CRASHES=1",
		[]string{"SHUT_GATE_KEPT"}},
	{"quantities and a buyer's limit", "ORDERS=2 TOTAL=3 Q0=2 LIMIT=2 ANN=3 ROLLS=1",
		[]string{"NO_LIMIT_CHECK", "ONE_UNIT_RESERVED", "ONE_UNIT_RELEASED"}},
	{"two orders with one key", "ORDERS=2 TOTAL=2 SAME_KEY=1 ROLLS=1",
		[]string{"NO_KEY_CHECK"}},
	{"an operator has the gate rebuilt", "ORDERS=1 ASKS=1 TAKES=2",
		[]string{"NOT_SHUT", "NOT_DRAINED", "INSTALLED_UNCONDITIONALLY", "INSTALLED_BY_EPOCH", "INSTALLED_OVER_ANOTHER"}},
	{"the total changes", "ORDERS=2 CHANGES=1 CRASHES=1",
		[]string{"TERMS_BY_NODE", "TERMS_OVERWRITTEN", "QUEUE_EMPTIED"}},
	{"an order is paid late", "ORDERS=1 TOTAL=2 SWEEPS=1 LATE=1 ROLLS=1 CRASHES=1",
		[]string{"LATE_PAST_GATE", "LATE_UNRELEASED", "NO_CLAIM_CHECK"}},
	{"an order is placed in direct mode", "ORDERS=2 SWEEPS=1 DIRECT=1",
		[]string{"NO_EPOCH", "DIRECT_PAST_STATE"}},
}

// refusalSearches are the searches of refusal.pml, which are small enough for every test run.
var refusalSearches = []setting{
	{"nothing fails", "",
		[]string{"KNOWN_BUYER_REFUSED", "NO_DEADLINE", "REACHES_ORDER", "REACHES_COPY", "REACHES_LOOKUP"}},
	{"a rebuild is requested, and nodes remember \"sold out\"", "ASKS=1 MEMORY=1",
		[]string{"NO_COOLDOWN", "MEMORY_NEVER_OLD", "MEMORY_OF_ANY_EPOCH", "REACHES_MEMORY", "REACHES_REBUILT"}},
	{"Redis restarts with less", "RESTARTS=1",
		[]string{"STALE_REFUSES"}},
	{"a replica is promoted", "FAILOVERS=1",
		[]string{"COPY_NEVER_OLD", "ANY_GATE_TRUSTED", "LOOKUP_OF_ORDERS_ONLY", "REBUILT_AT_ONCE", "STALE_UNNOTICED", "STALE_SELLS", "REACHES_PROMOTED"}},
	{"a replica is promoted, and each master has a keeper", "FAILOVERS=1 KEEPERS=2",
		[]string{"ANY_EPOCH_COMMITTED", "SHUT_GATE_COMMITTED"}},
	{"a replica is promoted, and MySQL fails over", "FAILOVERS=1 DBFAILS=1",
		[]string{"COPY_UNCONFIRMED", "LOOKUP_UNCONFIRMED", "ANNOUNCED_UNCONFIRMED", "CONFIRMED_ELSEWHERE"}},
	{"direct mode begins and ends", "DIRECTS=1 EPOCHS=3",
		[]string{"DIRECT_AT_ONCE", "SWITCHED_UNASKED", "REACHES_DIRECT_ORDER", "REACHES_DIRECT"}},
	{"direct mode begins, and MySQL fails over", "DIRECTS=1 DBFAILS=1 KEEPERS=0",
		[]string{"DIRECT_UNCONFIRMED"}},
}

// longRefusalSearches are searches of the right design that take minutes.
var longRefusalSearches = []string{
	"DIRECTS=1 KEEPERS=2",
	"FAILOVERS=1 KEEPERS=2 DBFAILS=1",
	"FAILOVERS=1 KEEPERS=2 EPOCHS=3",
	"ASKS=1 KEEPERS=2 EPOCHS=3",
	"DIRECTS=1 MEMORY=1 EPOCHS=3",
	"FAILOVERS=1 DIRECTS=1 DBFAILS=1",
	"FAILOVERS=1 ASKS=1 DBFAILS=2",
	"FAILOVERS=1 MEMORY=1 KEEPERS=2",
	"DIRECTS=1 DBFAILS=1",
	"ASKS=2 DBFAILS=1 EPOCHS=3",
	"RESTARTS=1 ASKS=1 EPOCHS=3",
	"FAILOVERS=1 DIRECTS=1 EPOCHS=3",
	"DIRECTS=1 TRIES=3 EPOCHS=3",
	"FAILOVERS=1 KEEPERS=2 TRIES=3",
}

// coalesceTwins are the twins of coalesce.pml, which has no parameters.
var coalesceTwins = []string{"ENDS_APART", "ENDS_AFTER_ONE", "GIVEN_UP_SENT", "TAKEN_TWICE", "NO_BOUND", "NO_PATIENCE"}

func TestModel(t *testing.T) {
	if *search != "" {
		if result := build(t, *model, true).search(t, *search); !result.passed() {
			t.Errorf("model: got a violation, want none:\n%s\n%s", result.output, result.trail)
		} else {
			t.Log(result.output)
		}
		return
	}
	build(t, "sale.pml", false).checkAll(t, searches, twins(t, "sale.pml"), "")
}

func TestRefusalModel(t *testing.T) {
	if *search != "" {
		t.Skip("-search is set: only TestModel runs that search")
	}
	build(t, "refusal.pml", true).checkAll(t, refusalSearches, twins(t, "refusal.pml"), "refused")
}

func TestRefusalModelLong(t *testing.T) {
	if os.Getenv("FLASHSALE_TEST_LONG") == "" {
		t.Skip("takes minutes: set FLASHSALE_TEST_LONG=1")
	}
	pan := build(t, "refusal.pml", true)
	for _, parameters := range longRefusalSearches {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			pan.check(t, setting{parameters: parameters}, nil, "")
		})
	}
}

func TestCoalesceModel(t *testing.T) {
	build(t, "coalesce.pml", false).check(t, setting{twins: coalesceTwins}, twins(t, "coalesce.pml"), "")
}

// checkAll calls check for each setting.
func (p pan) checkAll(t *testing.T, settings []setting, numbers map[string]string, property string) {
	t.Helper()
	for _, s := range settings {
		t.Run(s.about, func(t *testing.T) {
			t.Parallel()
			p.check(t, s, numbers, property)
		})
	}
}

// check searches the right design and each twin of the setting. A twin must violate
// an assertion that contains property, and a sanity check its own assertion.
func (p pan) check(t *testing.T, s setting, numbers map[string]string, property string) {
	t.Helper()
	result := p.search(t, s.parameters)
	if !result.passed() {
		t.Fatalf("model of the right design, %s: got a violation, want none:\n%s\n%s", s.parameters, result.output, result.trail)
	}
	t.Logf("%s: %s", s.parameters, regexp.MustCompile(`\S+ states, stored`).FindString(result.output))
	for _, twin := range s.twins {
		expected := property
		if strings.HasPrefix(twin, "REACHES_") {
			expected = "twin!=" + numbers[twin]
		}
		if result := p.search(t, s.parameters+" TWIN="+numbers[twin]); !result.failed(expected) {
			t.Errorf("model of the broken twin %s: got no violation, want one:\n%s", twin, result.output)
		}
	}
}

// Each twin of a model is part of one of its searches.
func TestEachTwinIsSearched(t *testing.T) {
	for model, settings := range map[string][]setting{
		"sale.pml": searches, "refusal.pml": refusalSearches, "coalesce.pml": {{twins: coalesceTwins}},
	} {
		var listed []string
		for _, s := range settings {
			listed = append(listed, s.twins...)
		}
		slices.Sort(listed)
		if defined := slices.Sorted(maps.Keys(twins(t, model))); !slices.Equal(listed, defined) {
			t.Errorf("twins of %s: got searches for %v,\nwant %v", model, listed, defined)
		}
	}
}

// twins returns the broken twins that a model defines, and their numbers.
func twins(t *testing.T, name string) map[string]string {
	t.Helper()
	model, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("read the model: got error %v, want none", err)
	}
	_, rest, found := strings.Cut(string(model), "/* The broken twins")
	list, _, ended := strings.Cut(rest, "byte twin;")
	numbers := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+) +(\d+) /\*`).FindAllStringSubmatch(list, -1) {
		numbers[m[1]] = m[2]
	}
	if !found || !ended || len(numbers) == 0 {
		t.Fatalf("model %s: got no list of broken twins, want one", name)
	}
	return numbers
}

// A pan is the path of a compiled search.
type pan string

// build runs Spin, and compiles the search that Spin writes. A packed search needs less
// memory.
func build(t *testing.T, name string, packed bool) pan {
	t.Helper()
	mode := os.Getenv("FLASHSALE_TEST_REAL")
	if mode == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil && mode == "require" {
			t.Fatalf("find the tools: got error %v, want none", err)
		} else if err != nil {
			t.Skipf("%v (on Debian: apt-get install spin gcc libc6-dev)", err)
		}
	}
	model, err := filepath.Abs(name)
	if err != nil {
		t.Fatalf("create the verifier: got error %v, want none", err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"spin", "-a", model},
		// The usual searches of sale.pml need at most 0.6 GB unpacked. They are as fast
		// as with -O2, which takes longer to compile.
		{"gcc", "-O1", "-w", "-DSAFETY", map[bool]string{true: "-DCOLLAPSE", false: "-DPLAIN"}[packed], "-DVECTORSZ=1024", "-DMEMLIM=" + *memory, "-o", "pan", "pan.c"},
	} {
		if out, err := command(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("build of the model, %s: got error %v, want none:\n%s", strings.Join(args, " "), err, out)
		}
	}
	return pan(filepath.Join(dir, "pan"))
}

func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(check.Context(t), args[0], args[1:]...)
	cmd.Dir = dir
	return cmd
}

// A result is the output of a search, and the trail of steps that led to an error.
type result struct{ output, trail string }

func (p pan) search(t *testing.T, parameters string) (r result) {
	t.Helper()
	dir := t.TempDir()
	environment := append(os.Environ(), strings.Fields(parameters)...)
	run := func(args ...string) string {
		cmd := command(t, dir, append([]string{string(p)}, args...)...)
		cmd.Env = environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("run of pan, %s: got error %v, want none:\n%s", parameters, err, out)
		}
		return string(out)
	}
	r.output = run("-m200000", "-w23", "-n")
	if !r.passed() && strings.Contains(r.output, "wrote ") && !strings.Contains(parameters, "TWIN=") {
		r.trail = run("-r", "-n")
	}
	return r
}

// passed reports whether the search has visited every state and found no error.
func (r result) passed() bool {
	return strings.Contains(r.output, "errors: 0") &&
		!strings.Contains(r.output, "Search not completed") && !strings.Contains(r.output, "max search depth too small")
}

// violated matches the assertion that a search has violated.
var violated = regexp.MustCompile(`assertion violated (.*) \(at depth`)

// failed reports whether the search has violated an assertion that contains property.
func (r result) failed(property string) bool {
	m := violated.FindStringSubmatch(r.output)
	return m != nil && strings.Contains(r.output, "errors: 1") && strings.Contains(m[1], property)
}
