package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// source holds the names of the module's files and functions. The names in a document are
// checked against them.
type source struct {
	files map[string]bool     // by base name
	funcs map[string][]string // "Func" or "Type.Method" → base names of the files
}

// readSource parses all Go files of the module. It ignores packages: a function is found by
// its name.
func readSource(t *testing.T) source {
	t.Helper()
	s := source{files: map[string]bool{}, funcs: map[string][]string{}}
	err := filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		s.files[entry.Name()] = true
		if filepath.Ext(p) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				name := receiver(f) + f.Name.Name
				s.funcs[name] = append(s.funcs[name], entry.Name())
			}
		}
		return nil
	})
	check.Must(t, err)
	return s
}

// receiver returns "Type." for a method and "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch e := typ.(type) {
		case *ast.StarExpr:
			typ = e.X
		case *ast.IndexExpr: // a generic type
			typ = e.X
		case *ast.IndexListExpr:
			typ = e.X
		case *ast.Ident:
			return e.Name + "."
		default:
			return ""
		}
	}
}

var (
	step     = regexp.MustCompile(`(?m)^\d+\. .*\n(?:   .*\n)*`)
	named    = regexp.MustCompile("`([a-z_0-9]+\\.go)`\\s+`((?:\\w+\\.)?\\w+)`")
	method   = regexp.MustCompile("`(\\w+\\.\\w+)`")
	testName = regexp.MustCompile("`(Test\\w+)`")
	fileName = regexp.MustCompile(`\.(go|lua|js|yaml)$`)
)

// wrongSteps returns the errors in the steps of a page of stories, and the number of stories
// and steps.
func wrongSteps(page string, have source) (wrong []string, stories, steps int) {
	for _, story := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(story, "\n")
		stories++
		for _, one := range step.FindAllString(text+"\n", -1) {
			steps++
			number, _, _ := strings.Cut(one, ".")
			say := func(format string, args ...any) {
				wrong = append(wrong, fmt.Sprintf("%s, step %s: ", title, number)+fmt.Sprintf(format, args...))
			}
			functions, tests := named.FindAllStringSubmatch(one, -1), testName.FindAllStringSubmatch(one, -1)
			if len(functions) == 0 || len(tests) == 0 {
				say("want a function, as `file.go` `Type.Method`, and a test")
			}
			for _, m := range functions {
				if in := have.funcs[m[2]]; len(in) == 0 {
					say("there is no function %s", m[2])
				} else if !slices.Contains(in, m[1]) {
					say("%s is not in %s but in %s", m[2], m[1], strings.Join(in, ", "))
				}
			}
			for _, m := range method.FindAllStringSubmatch(one, -1) {
				if isFile := fileName.MatchString(m[1]); isFile && !have.files[m[1]] {
					say("there is no file %s", m[1])
				} else if !isFile && have.funcs[m[1]] == nil {
					say("there is no function %s", m[1])
				}
			}
			for _, m := range tests {
				in := have.funcs[m[1]]
				if !slices.ContainsFunc(in, func(file string) bool { return strings.HasSuffix(file, "_test.go") }) {
					say("there is no test %s", m[1])
				}
			}
		}
	}
	return wrong, stories, steps
}

// Each step of a story names a function, its file and a test, and all of them exist. If a
// function or its file is renamed, change the story as well.
func TestStories(t *testing.T) {
	have := readSource(t)
	wrong, stories, steps := wrongSteps(read(t, "orders/STORIES.md"), have)
	for _, w := range wrong {
		t.Errorf("STORIES.md: %s", w)
	}
	if stories < 7 || steps < 50 {
		t.Errorf("STORIES.md: got %d stories and %d steps, want at least 7 and 50", stories, steps)
	}
}

// wrongSteps finds names that do not exist.
func TestStoriesFindsMissingNames(t *testing.T) {
	have := source{
		files: map[string]bool{"a.go": true, "x.lua": true},
		funcs: map[string][]string{"T.Do": {"a.go"}, "do": {"b.go"}, "TestDo": {"a_test.go"}, "TestNot": {"a.go"}},
	}
	for item, want := range map[string]string{
		"1. `a.go` `T.Do` and `x.lua`: `TestDo`.\n":         "",
		"1. `a.go`\n   `T.Do`:\n   `TestDo`.\n":             "",
		"1. `a.go` `T.Do`.\n":                               "want a function",
		"1. It is done: `TestDo`.\n":                        "want a function",
		"1. `a.go` `T.Undo`: `TestDo`.\n":                   "no function T.Undo",
		"1. `a.go` `do`: `TestDo`.\n":                       "do is not in a.go but in b.go",
		"1. `a.go` `T.Do`, then `T.Undo`: `TestDo`.\n":      "no function T.Undo",
		"1. `a.go` `T.Do`, then `y.lua`: `TestDo`.\n":       "no file y.lua",
		"1. `a.go` `T.Do`: `TestUndo`.\n":                   "no test TestUndo",
		"1. `a.go` `T.Do`: `TestNot`, which is no test.\n":  "no test TestNot",
		"1. `a.go` `T.Do`: `TestDo`.\n2. And so on.\n":      "step 2: want a function",
		"1. `a.go` `T.Do`: `TestDo`.\n\n10. `TestDo` it.\n": "step 10: want a function",
	} {
		wrong, _, _ := wrongSteps("# Stories\n\n## One\n\n"+item, have)
		if got := strings.Join(wrong, "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("story item %q: got %q, want %q", item, got, want)
		}
	}
}
