package main

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

const root = "../.." // folder of the module

// prompts matches the commands of console blocks, with continuation lines.
var prompts = regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*)$`)

// testRun matches go test with -run, in a console block or in a sentence. It captures the
// pattern and the folder.
var testRun = regexp.MustCompile(`go test (?:-v )?-run '?([^'\s]+)'? (?:-v )?(\./[\w/]+)`)

// words matches the words of a command line. Text in single quotes is one word.
var words = regexp.MustCompile(`'[^']*'|[^\s']+`)

// All commands of this program in the documents parse, and all tests and folders in the
// documents exist. TestReadme runs the commands.
func TestReadmeCommands(t *testing.T) {
	var text strings.Builder
	for _, file := range documents(t) {
		text.WriteString(read(t, file))
	}
	seen := 0
	for _, m := range prompts.FindAllStringSubmatch(text.String(), -1) {
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
		case strings.HasPrefix(line, "cd "):
			dir := strings.Fields(line)[1]
			if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
				t.Errorf("command %s of a document: got error %v, want its folder", line, err)
			}
		}
	}
	for _, m := range testRun.FindAllStringSubmatch(text.String(), -1) {
		testExists(t, m[1], m[2])
		seen++
	}
	if seen < 10 {
		t.Errorf("commands in the documents: got %d, want 10 or more", seen)
	}
}

// parses fails the test if the program cannot parse a command line.
func parses(t *testing.T, line string) {
	t.Helper()
	var args []string
	for _, w := range words.FindAllString(line, -1) {
		args = append(args, strings.Trim(w, "'"))
	}
	parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
	check.Must(t, err)
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("command flashsale %s of a document: got error %v, want none", line, err)
	}
}

// testExists fails the test if a folder has no test that matches name. go test itself
// would succeed without running a test.
func testExists(t *testing.T, name, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	check.Must(t, err)
	pattern := regexp.MustCompile(name)
	for _, file := range files {
		for _, m := range function.FindAllStringSubmatch(read(t, filepath.Join(dir, filepath.Base(file))), -1) {
			if pattern.MatchString(m[1]) {
				return
			}
		}
	}
	t.Errorf("command %s of a document: got no test of that name in %s", name, dir)
}

var function = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)

var (
	link    = regexp.MustCompile(`(?:\]\(|<img src=")([^)#"]*)(?:#([^)]*))?[)"]`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// punctuation matches the characters of a heading that its anchor omits.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// All files, headings and pictures that the Markdown files link to exist.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			to, anchor := m[1], m[2]
			if strings.Contains(to, "://") {
				continue
			}
			target := file
			if to != "" {
				target = path.Join(path.Dir(file), to)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("link in %s: got error %v, want an existing file", file, err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("link in %s: got no heading for it in %s: #%s", file, target, anchor)
			}
		}
	}
}

// The README is short, and links lead from it to every other document.
func TestReadmeIsShort(t *testing.T) {
	const lines, wordCount = 230, 3000
	text := read(t, "README.md")
	if n := strings.Count(text, "\n"); n > lines {
		t.Errorf("README.md: got %d lines, want at most %d: put the rest beside its code, and link it", n, lines)
	}
	if n := len(strings.Fields(text)); n > wordCount {
		t.Errorf("README.md: got %d words, want at most %d", n, wordCount)
	}
	found, next := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			to := path.Join(path.Dir(file), m[1])
			if m[1] != "" && path.Ext(to) == ".md" && !strings.Contains(m[1], "://") && !found[to] {
				found[to], next = true, append(next, to)
			}
		}
	}
	for _, file := range documents(t) {
		if !found[file] {
			t.Errorf("document %s: it cannot be found from README.md by links", file)
		}
	}
}

func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

var (
	code   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	indent = regexp.MustCompile(`(?m)^\t+`)

	packageOf = regexp.MustCompile(`(?m)^package \w+$`)
	inMain    = strings.NewReplacer("func Example_program()", "func main()", "\t// Output:\n", "}\n")
)

// Go code in a document is part of an example in the same folder or one level below, so it
// compiles and its output is checked. A whole program is Example_program in
// program_test.go.
func TestReadmeCode(t *testing.T) {
	programs := 0
	for _, file := range documents(t) {
		for _, m := range code.FindAllStringSubmatch(read(t, file), -1) {
			in, name := path.Dir(file), "example_test.go"
			if strings.HasPrefix(m[1], "package main\n") {
				name = "program_test.go"
				programs++
			}
			files, _ := filepath.Glob(filepath.Join(root, in, name))
			below, _ := filepath.Glob(filepath.Join(root, in, "*", name))
			examples := ""
			for _, name := range append(files, below...) {
				text, err := os.ReadFile(name)
				check.Must(t, err)
				examples += inMain.Replace(packageOf.ReplaceAllString(string(text), "package main"))
			}
			if !strings.Contains(indent.ReplaceAllString(examples, ""), indent.ReplaceAllString(m[1], "")) {
				t.Errorf("code in %s: it is not part of the examples:\n%s", file, m[1])
			}
		}
	}
	if programs < 3 {
		t.Errorf("programs in the documents: got %d whole ones, want 3 or more: lock, limiter and gate", programs)
	}
}

// documents returns the project's Markdown files.
func documents(t *testing.T) []string { return files(t, ".md") }

// files returns the paths in the module of all files with one of the extensions.
func files(t *testing.T, extensions ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case slices.Contains(extensions, path.Ext(p)):
			file, err := filepath.Rel(root, p)
			files = append(files, filepath.ToSlash(file))
			return err
		}
		return nil
	})
	check.Must(t, err)
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	check.Must(t, err)
	return string(b)
}
