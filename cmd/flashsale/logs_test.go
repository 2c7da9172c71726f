package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// With --log-format json, each line of the log is an object, the reason why a node ends included.
func TestJSONLog(t *testing.T) {
	_, log, err := command(t, "serve", "--log-format", "json", "--redis", "redis://localhost:1")
	var line struct{ Level, Msg, Error string }
	check.Must(t, json.Unmarshal([]byte(log), &line))
	if !errors.Is(err, exitCode(3)) || line.Level != "ERROR" || line.Msg != "node ends" || !strings.Contains(line.Error, "--mysql") {
		t.Errorf("log of a node that cannot start: got %+v and error %v, want the message that names --mysql, and exit status 3", line, err)
	}
}

// nodes matches the files that contain log messages of a node.
var nodes = regexp.MustCompile(`^(?:cmd/flashsale/serve|cmd/flashsale/internal/node/.*|inventory/.*|ratelimit/.*|orders/.*)\.go$`)

// notNodes matches files in these folders whose messages no node logs.
var notNodes = regexp.MustCompile(`_test\.go$|/antipatterns/|/locktest/|/compare/|^orders/internal/|^orders/httpapi/payments/|^orders/lock/internal/onredis/store.go`)

// OPERATIONS.md lists each warning and each error that a node logs, and no other.
func TestLogMessagesAreListed(t *testing.T) {
	_, manual, _ := strings.Cut(read(t, "cmd/flashsale/OPERATIONS.md"), "\n## Logs\n")
	manual, _, _ = strings.Cut(manual, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(manual, -1) {
		listed = append(listed, strings.Split(m[1], "`, `")...)
	}
	unknown := slices.Clone(listed)
	for _, name := range files(t, ".go") {
		if !nodes.MatchString(name) || notNodes.MatchString(name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		check.Must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			pattern, ok := logged(n)
			if !ok {
				return true
			}
			is := regexp.MustCompile("^" + pattern + "$").MatchString
			if !slices.ContainsFunc(listed, is) {
				t.Errorf("file %s: OPERATIONS.md does not list its log message %s", name, pattern)
			}
			unknown = slices.DeleteFunc(unknown, is)
			return true
		})
	}
	if len(unknown) > 0 || len(listed) < 20 {
		t.Errorf("OPERATIONS.md lists %d messages, want 20 or more, and these are in no source: %q", len(listed), unknown)
	}
}

// logged returns a pattern of the message, if n is a call that logs a warning or an error.
func logged(n ast.Node) (pattern string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	level, message := method.Sel.Name, 0
	if strings.HasSuffix(level, "Context") {
		message = 1
	}
	if level = strings.TrimSuffix(level, "Context"); level != "Warn" && level != "Error" || len(call.Args) <= message {
		return "", false
	}
	return textOf(call.Args[message]), true
}

// textOf returns a pattern of the text that e evaluates to.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return regexp.QuoteMeta(text)
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	}
	return ".+"
}
