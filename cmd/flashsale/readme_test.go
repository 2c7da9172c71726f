package main

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.." // of the module

// prompts are the lines of console blocks that one is told to type, with their
// continuations.
var prompts = regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*)$`)

// words of a command line, with what is between single quotes as one.
var words = regexp.MustCompile(`'[^']*'|[^\s']+`)

// Commands that are no longer as the README prints them are found here: each of
// the program's must parse, and each test and folder must be there. What they
// do, the tests of each command see to.
func TestReadmeCommands(t *testing.T) {
	readme := read(t, "README.md")
	seen := 0
	for _, m := range prompts.FindAllStringSubmatch(readme, -1) {
		line := strings.ReplaceAll(m[1], "\\\n", " ")
		_, args, ours := strings.Cut(line, "go run ./cmd/flashsale ")
		switch {
		case ours:
			args, _, _ = strings.Cut(args, "#")
			if strings.Contains(line, "$(go run") {
				args = strings.TrimSuffix(strings.TrimSpace(args), ")")
			}
			parses(t, args)
			seen++
		case strings.Contains(line, "go test -run "):
			testExists(t, line)
			seen++
		case strings.HasPrefix(line, "cd "):
			dir := strings.Fields(line)[1]
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d commands of the program in the README, want those of a dozen blocks", seen)
	}
}

// parses takes a command line apart as the program does, and runs nothing.
func parses(t *testing.T, line string) {
	t.Helper()
	var args []string
	for _, w := range words.FindAllString(line, -1) {
		args = append(args, strings.Trim(w, "'"))
	}
	parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("flashsale %s: %v", line, err)
	}
}

// testExists looks for the test that a line such as
// "go test -run Museum -v ./ratelimit" names, in the folder it names.
func testExists(t *testing.T, line string) {
	t.Helper()
	dir := root
	if into, _, ok := strings.Cut(line, " && "); ok {
		dir = filepath.Join(dir, strings.TrimPrefix(into, "cd "))
	}
	if i := strings.LastIndex(line, " ./"); i >= 0 {
		dir = filepath.Join(dir, line[i+1:])
	}
	_, name, _ := strings.Cut(line, "-run ")
	name = strings.Fields(name)[0]
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^func (Test|Example)\w*` + name).Match(b) {
			return
		}
	}
	t.Errorf("%s: no test of that name in %s", line, dir)
}

// What the Markdown files link to is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	for _, file := range []string{"README.md", ".github/CONTRIBUTING.md", "orders/model/README.md"} {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(path.Dir(file), m[1])))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
