// Package model_test searches sale.pml, the model of what packages orders and
// inventory do to MySQL and Redis, and coalesce.pml, that of callers who
// share calls, with Spin. See README.md.
package model_test

import (
	"context"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	search = flag.String("search", "", "parameters of one search of the model, such as 'ORDERS=2 TAKES=2 ROLLS=1', in place of the usual ones")
	memory = flag.String("memory", "4000", "what the search may use, in MB")
)

// searches of sale.pml are small enough for every day. The right design passes each of
// them, and each broken twin fails the very search that the right one passes.
var searches = []struct {
	about, parameters string
	twins             []string
}{
	{"keepers overlap and die", "ORDERS=1 SWEEPS=1 TAKES=2 CRASHES=1",
		[]string{"NO_FENCE", "NO_HOLD_CHECK", "NO_STATUS_CONDITION", "MARKED_BEFORE_RELEASE", "MARKED_UNANSWERED"}},
	{"Redis goes back", "ORDERS=2 ROLLS=1",
		[]string{"NO_CONDITIONAL_SALE", "TOLD_BEFORE_COMMIT", "SUMS_ONLY"}},
	{"Redis goes back and a keeper dies", "ORDERS=1 ROLLS=1 CRASHES=1",
		[]string{"SHUT_IS_NO_REASON"}},
	{"quantities and a buyer's limit", "ORDERS=2 TOTAL=3 Q0=2 LIMIT=2 ANN=3 ROLLS=1",
		[]string{"NO_LIMIT_JUDGED", "ONE_UNIT_RESERVED", "ONE_UNIT_RELEASED"}},
	{"two orders with one key", "ORDERS=2 TOTAL=2 SAME_KEY=1 ROLLS=1",
		[]string{"NO_KEY_JUDGED"}},
	{"an operator has the gate rebuilt", "ORDERS=1 ASKS=1 TAKES=2",
		[]string{"NOT_SHUT", "NOT_DRAINED", "INSTALLED_ANYHOW", "INSTALLED_BY_EPOCH", "INSTALLED_OVER_ANOTHER"}},
	{"the total changes", "ORDERS=2 CHANGES=1 CRASHES=1",
		[]string{"TERMS_BY_NODE", "TERMS_OVERWRITTEN", "SETTLED_WHOLE"}},
	{"an order is paid late", "ORDERS=1 TOTAL=2 SWEEPS=1 LATE=1 ROLLS=1 CRASHES=1",
		[]string{"LATE_PAST_GATE", "LATE_UNRESTORED", "NO_REFUND_JUDGED"}},
	{"an order is placed in direct mode", "ORDERS=2 SWEEPS=1 DIRECT=1",
		[]string{"NO_EPOCH", "DIRECT_PAST_STATE"}},
}

// coalesceTwins are those of coalesce.pml, which has no parameters.
var coalesceTwins = []string{"ENDS_APART", "ENDS_AFTER_ONE", "GIVEN_UP_SENT", "TAKEN_TWICE", "NO_BOUND", "NO_PATIENCE"}

func TestModel(t *testing.T) {
	pan := build(t, "sale.pml")
	if *search != "" {
		if verdict := pan.search(t, *search); !verdict.passed() {
			t.Errorf("%s\n%s", verdict.output, verdict.trail)
		} else {
			t.Log(verdict.output)
		}
		return
	}
	numbers := twins(t, "sale.pml")
	for _, s := range searches {
		t.Run(s.about, func(t *testing.T) {
			t.Parallel()
			pan.judge(t, s.parameters, s.twins, numbers)
		})
	}
}

func TestCoalesceModel(t *testing.T) {
	build(t, "coalesce.pml").judge(t, "", coalesceTwins, twins(t, "coalesce.pml"))
}

// judge searches the right design, and each of these twins.
func (p pan) judge(t *testing.T, parameters string, twins []string, numbers map[string]string) {
	t.Helper()
	if verdict := p.search(t, parameters); !verdict.passed() {
		t.Fatalf("the right design, %s:\n%s\n%s", parameters, verdict.output, verdict.trail)
	}
	for _, twin := range twins {
		if verdict := p.search(t, parameters+" TWIN="+numbers[twin]); !verdict.failed() {
			t.Errorf("%s was not caught:\n%s", twin, verdict.output)
		}
	}
}

// Each twin in a model is in one of its searches.
func TestEachTwinIsSearchedFor(t *testing.T) {
	var listed []string
	for _, s := range searches {
		listed = append(listed, s.twins...)
	}
	for model, listed := range map[string][]string{"sale.pml": listed, "coalesce.pml": coalesceTwins} {
		listed = slices.Sorted(slices.Values(listed))
		if defined := slices.Sorted(maps.Keys(twins(t, model))); !slices.Equal(listed, defined) {
			t.Errorf("%s: searched for %v,\ndefined are %v", model, listed, defined)
		}
	}
}

// twins are the broken twins that a model defines, with their numbers.
func twins(t *testing.T, name string) map[string]string {
	t.Helper()
	model, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(model), "/* The broken twins")
	list, _, ended := strings.Cut(rest, "byte twin;")
	numbers := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+) +(\d+) /\*`).FindAllStringSubmatch(list, -1) {
		numbers[m[1]] = m[2]
	}
	if !found || !ended || len(numbers) == 0 {
		t.Fatalf("%s has no list of broken twins", name)
	}
	return numbers
}

// A pan is the compiled search.
type pan string

// build has Spin write the search, and compiles it.
func build(t *testing.T, name string) pan {
	t.Helper()
	mode := os.Getenv("FLASHSALE_TEST_REAL")
	if mode == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil && mode == "require" {
			t.Fatal(err)
		} else if err != nil {
			t.Skipf("%v (on Debian: apt-get install spin gcc libc6-dev)", err)
		}
	}
	model, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"spin", "-a", model},
		// The usual searches need at most 0.6 GB as they are; a larger one, packed. They
		// are as fast as with -O2, which takes longer to compile.
		{"gcc", "-O1", "-w", "-DSAFETY", map[bool]string{true: "-DPLAIN", false: "-DCOLLAPSE"}[*search == ""], "-DVECTORSZ=1024", "-DMEMLIM=" + *memory, "-o", "pan", "pan.c"},
	} {
		if out, err := command(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return pan(filepath.Join(dir, "pan"))
}

func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	return cmd
}

// A verdict is what a search said, and how it came to an error.
type verdict struct{ output, trail string }

func (p pan) search(t *testing.T, parameters string) (v verdict) {
	t.Helper()
	dir := t.TempDir()
	environment := append(os.Environ(), strings.Fields(parameters)...)
	run := func(args ...string) string {
		cmd := command(t, dir, append([]string{string(p)}, args...)...)
		cmd.Env = environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pan, %s: %v\n%s", parameters, err, out)
		}
		return string(out)
	}
	v.output = run("-m200000", "-w23", "-n")
	if !v.passed() && strings.Contains(v.output, "wrote ") && !strings.Contains(parameters, "TWIN=") {
		v.trail = run("-r", "-n")
	}
	return v
}

// passed: every state was looked at, and none was wrong.
func (v verdict) passed() bool {
	return strings.Contains(v.output, "errors: 0") &&
		!strings.Contains(v.output, "Search not completed") && !strings.Contains(v.output, "max search depth too small")
}

// failed: something that must be true was not.
func (v verdict) failed() bool {
	return strings.Contains(v.output, "errors: 1") && strings.Contains(v.output, "assertion violated")
}
