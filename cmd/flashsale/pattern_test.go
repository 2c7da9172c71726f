package main

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxPatternLines bounds the lines of all pattern files, without comments and blank lines.
const maxPatternLines = 1150

// The files that the README lists under "The pattern is in these files" have at most
// maxPatternLines lines, so they can be read in one sitting.
func TestPatternIsShort(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "README.md"), "**The pattern is in these files**")
	list, _, ok := strings.Cut(list, "**You may stop here.**")
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(list, -1)
	if !ok || len(links) < 10 {
		t.Fatalf("files of the pattern in README: got %d, want 10 or more", len(links))
	}
	comment := map[string]string{".go": "//", ".lua": "--", ".sql": "--"}
	sum := 0
	for _, link := range links {
		lines := 0
		for line := range strings.Lines(read(t, link[1])) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, comment[path.Ext(link[1])]) {
				lines++
			}
		}
		t.Logf("%5d %s", lines, link[1])
		sum += lines
	}
	if t.Logf("%5d in all", sum); sum > maxPatternLines {
		t.Errorf("code of the pattern: got %d lines, want at most %d", sum, maxPatternLines)
	}
}
