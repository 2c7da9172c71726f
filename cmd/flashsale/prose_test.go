package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

const habitsFile = "testdata/habits.txt"

var updateHabits = flag.Bool("update", false, "lower the numbers in "+habitsFile)

// habits are words that make a comment hard to read.
var habits = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:tells?|told|says?|said|hears?|heard)\b`), // write returns, reports, contains or receives
	regexp.MustCompile(`\b(?:nobody|anybody|somebody|everybody|whoever)\b`),
	regexp.MustCompile(`\b(?:those (?:who|that|which|of)|one (?:that|who|which)|the others)\b`),
	regexp.MustCompile(`(?:^|[.;:,] |\bor )else\b`),
	regexp.MustCompile(`\b(?:so|as) many\b|\bfor (?:so|as) long\b`),
	regexp.MustCompile(`\b(?:a|no) (?:yes|no)\b|\b(?:is|are) (?:an? |the |its )?\w+'s(?:[.,;:)]|$)`),
	regexp.MustCompile(`^(?:of|what|where|who) |^[\w.]+ (?:is|are) (?:what|where|who|how|why) `),
	regexp.MustCompile(`\b(?:goes on|go on|lets? go|anew|for good|beside|seldom|as a rule)\b`),
}

var commentLine = regexp.MustCompile(`^\s*(?://|--)(.*)`)

// hits counts the habits in the comments of a file. Each habit counts once per comment.
func hits(text string) (n int) {
	comment := ""
	for line := range strings.Lines(text + "\n\n") {
		if m := commentLine.FindStringSubmatch(line); m != nil {
			comment += strings.ToLower(m[1])
			continue
		}
		for _, habit := range habits {
			if habit.MatchString(strings.TrimSpace(comment)) {
				n++
			}
		}
		comment = ""
	}
	return n
}

// No package has more hits than its number in habits.txt, and these numbers only fall. If a
// package moves, move its number by hand.
func TestHabits(t *testing.T) {
	found, allowed := map[string]int{}, map[string]int{}
	for _, file := range files(t, ".go", ".lua") {
		found[path.Dir(file)] += hits(read(t, file))
	}
	for line := range strings.Lines(read(t, path.Join("cmd/flashsale", habitsFile))) {
		var name string
		var n int
		_, err := fmt.Sscan(line, &n, &name)
		check.Must(t, err)
		allowed[name] = n
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch n, limit := found[name], allowed[name]; {
		case n > limit:
			t.Errorf("package %s: got %d wording habits in its comments, want at most %d: see %s and the patterns above", name, n, limit, habitsFile)
		case n < limit && !*updateHabits:
			t.Errorf("package %s: got %d wording habits, fewer than the %d of %s: run go test ./cmd/flashsale -run TestHabits -update", name, n, limit, habitsFile)
		}
		if n := min(found[name], allowed[name]); n > 0 {
			fmt.Fprintf(&out, "%d %s\n", n, name)
		}
		delete(allowed, name)
	}
	if len(allowed) > 0 && !*updateHabits {
		t.Errorf("file %s: got packages that are gone, want none: %v: run go test ./cmd/flashsale -run TestHabits -update", habitsFile, allowed)
	}
	if *updateHabits {
		check.Must(t, os.WriteFile(filepath.FromSlash(habitsFile), []byte(out.String()), 0o644))
	}
}
