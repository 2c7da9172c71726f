package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
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

var (
	ofNode    = regexp.MustCompile(`^(?:cmd/flashsale/serve|cmd/flashsale/internal/node/.*|inventory/.*|ratelimit/.*|orders/.*)\.go$`)
	notOfNode = regexp.MustCompile(`_test\.go$|/antipatterns/|/locktest/|/compare/|^orders/internal/|^orders/httpapi/payments/|^orders/lock/internal/onredis/store\.go$`)
	logged    = regexp.MustCompile(`\.(?:Warn|Error)(?:Context)?\((?:\w+, )?([\w.]+\+)?"([^"]+)"(\+)?`)
	inTable   = regexp.MustCompile("(?m)^\\| `(.*?)` \\|")
)

// OPERATIONS.md lists each warning and each error that a node logs, and no other.
func TestLogMessagesAreListed(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "cmd/flashsale/OPERATIONS.md"), "\n## Logs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range inTable.FindAllStringSubmatch(section, -1) {
		listed = append(listed, strings.Split(m[1], "`, `")...)
	}
	unknown := slices.Clone(listed)
	for _, name := range files(t, ".go") {
		if !ofNode.MatchString(name) || notOfNode.MatchString(name) {
			continue
		}
		for _, m := range logged.FindAllStringSubmatch(read(t, name), -1) {
			// m[1] and m[3] are not empty if a variable precedes or follows the text.
			is := func(message string) bool {
				before, after, found := strings.Cut(message, m[2])
				return found && (before != "") == (m[1] != "") && (after != "") == (m[3] != "")
			}
			if !slices.ContainsFunc(listed, is) {
				t.Errorf("file %s: OPERATIONS.md does not list its log message %s", name, m[0])
			}
			unknown = slices.DeleteFunc(unknown, is)
		}
	}
	if len(unknown) > 0 || len(listed) < 20 {
		t.Errorf("OPERATIONS.md lists %d messages, want 20 or more, and these are in no source: %q", len(listed), unknown)
	}
}
