package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest/check"
)

// runReadme is the environment variable that makes TestReadme run all commands of the
// documents: "full" runs them as they are, and "short" runs a part of the commands that
// take minutes.
const runReadme = "FLASHSALE_TEST_README"

// shortened maps commands that take minutes to the commands that "short" runs instead.
var shortened = map[string]string{
	"go run ./cmd/flashsale compare":                                                                           "go run ./cmd/flashsale compare marker-first",
	"go run ./cmd/flashsale drill":                                                                             "go run ./cmd/flashsale drill node-killed",
	"go run ./cmd/flashsale loadtest --stock 2000 --rate 100 --duration 20s":                                   "go run ./cmd/flashsale loadtest --stock 200 --rate 100 --duration 2s",
	"go run ./cmd/flashsale bench --quiet":                                                                     "go run ./cmd/flashsale bench gate direct --rounds 1 --seconds 1 --quiet",
	"go run ./cmd/flashsale drill storm --minutes 1 --seed 1":                                                  "go run ./cmd/flashsale drill storm --minutes 0.1 --seed 1",
	"cd orders/lock/compare && for round in 1 2 3 4 5; do go test -run - -bench Limiter -benchtime 0.7s; done": "cd orders/lock/compare && go test -run - -bench Limiter -benchtime 20x",
	"go test ./orders/model -v -timeout 20m -memory 9000 -search 'ORDERS=2 SWEEPS=1 TAKES=2 CRASHES=1'":        "go test ./orders/model -v -search 'ORDERS=1'",
	"cd orders/lock/compare && for round in 1 2 3 4 5; do go test -run - -bench Lock -benchtime 0.7s; done":    "cd orders/lock/compare && go test -run - -bench Lock -benchtime 20x",
}

// failing maps commands that demonstrate a failure to their exit status.
var failing = map[string]int{"go run ./cmd/flashsale demo --strategy get-decr --rate 1000 --duration 5s": 1}

// elsewhere lists the commands that TestReadme skips, because CI runs them in separate steps.
var elsewhere = map[string]bool{
	"go run ./cmd/flashsale demo": true, "go test ./...": true, "go test ./orders/model": true, ".ci/run": true,
}

// byHand lists the headings of sections that are not run. Their commands take minutes, or
// need other database engines or the reader's own database.
var byHand = []string{"Old sales", "MySQL 9 and failovers of MySQL", "The database fails over", "Redis 8, Valkey and a changing cluster", "TiDB"}

// All commands of the documents work, and the first line of their output matches the
// document. One shell runs all commands of a section.
func TestReadme(t *testing.T) {
	mode := os.Getenv(runReadme)
	switch mode {
	case "":
		t.Skip("set " + runReadme + " to short or full")
	case "short", "full":
	default:
		t.Fatalf("variable %s: got %s, want short or full", runReadme, mode)
	}
	for _, file := range documents(t) {
		for _, s := range sections(read(t, file)) {
			if s.heading == copySection || slices.Contains(byHand, s.heading) { // TestCopy runs copySection
				continue
			}
			t.Run(file+"/"+s.heading, func(t *testing.T) {
				if !hasCompose(t) {
					s.commands = slices.DeleteFunc(s.commands, func(c printed) bool { return strings.Contains(c.line, "docker compose ") })
				}
				if len(s.commands) == 0 {
					t.Skip("no Docker engine, or no Docker Compose")
				}
				// In mode "short", sections run in parallel, because their measurements do not
				// matter. Sections with bench run alone, because bench fails on a busy
				// machine.
				if mode == "short" && !strings.Contains(s.commands[0].line, " bench ") {
					t.Parallel()
				}
				s.run(t, mode == "short")
			})
		}
	}
}

// hasCompose reports whether a Docker engine answers and the client has Docker Compose.
func hasCompose(t *testing.T) bool {
	run := func(args ...string) error { return exec.CommandContext(t.Context(), "docker", args...).Run() }
	return run("info") == nil && run("compose", "version") == nil
}

// A section is a heading of a document with its commands.
type section struct {
	heading  string
	commands []printed
}

// printed is a command of a document with the first line of its printed output.
type printed struct{ line, output string }

// sections returns the sections that have commands to run.
func sections(readme string) (list []section) {
	var at section
	fence, output := "", false
	end := func() {
		if len(at.commands) > 0 {
			list = append(list, at)
		}
	}
	lines := strings.Split(readme, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch lang, ok := strings.CutPrefix(line, "```"); {
		case ok && fence == "":
			fence = lang
			continue
		case ok:
			fence = ""
			continue
		case fence == "" && strings.HasPrefix(line, "#"):
			end()
			at, output = section{heading: strings.TrimLeft(line, "# ")}, false
			continue
		case fence != "console":
			continue
		}
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			for strings.HasSuffix(command, "\\") {
				i++
				command = strings.TrimSuffix(command, "\\") + strings.TrimSpace(lines[i])
			}
			if output = !elsewhere[command]; output {
				at.commands = append(at.commands, printed{line: command})
			}
		} else if output {
			at.commands[len(at.commands)-1].output, output = line, false
		}
	}
	end()
	return list
}

// run runs the commands of a section in a shell, which exits at the first unexpected exit
// status.
func (s section) run(t *testing.T, short bool) {
	ctx := check.Context(t)
	here := s.places(ctx, t)
	bin := t.TempDir() // for "go install"
	cmd := exec.CommandContext(ctx, "bash", "-c", s.script(here, short))
	cmd.Dir = root
	cmd.Env = append(withoutOurVariables(os.Environ()), "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"FLASHSALE_ADDR="+here.addr, "FLASHSALE_TARGET=http://"+here.addr, "COMPOSE_PROJECT_NAME=flashsale-readme")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// On SIGTERM the shell stops the processes that it has started, see script.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	if err != nil {
		t.Errorf("commands of the README: got error %v, want none:\n%s", err, &out)
		return
	}
	for i, c := range s.commands {
		_, after, _ := strings.Cut(out.String(), mark(i))
		if printed, _, _ := strings.Cut(after, mark(i+1)); !shape(c.output).MatchString(printed) {
			t.Errorf("command %s: got no output like %q:\n%s", c.line, c.output, printed)
		}
	}
}

// withoutOurVariables returns the environment without the variables of this program and its tests.
func withoutOurVariables(environment []string) (kept []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "FLASHSALE_") && !strings.HasPrefix(variable, asProgram) {
			kept = append(kept, variable)
		}
	}
	return kept
}

// places holds the addresses that a test uses instead of the fixed ports of the documents.
type places struct{ addr, redis, mysql string }

// in replaces the addresses in a command.
func (p places) in(command string) string {
	return strings.NewReplacer(
		"localhost:8080", p.addr, "127.0.0.1:8080", p.addr,
		"redis://localhost:6379/0", p.redis, "flashsale:password@tcp(localhost:3306)/flashsale", p.mysql,
	).Replace(command)
}

// places chooses a free port and, if the section uses --mysql, starts stores.
func (s section) places(ctx context.Context, t *testing.T) places {
	var p places
	for free := false; !free && ctx.Err() == nil; {
		// Ephemeral ports begin above 30,000. Another process might take one of them before
		// the command listens.
		p.addr = fmt.Sprint("127.0.0.1:", 20_000+rand.N(10_000))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.addr)
		if free = err == nil; free {
			check.Must(t, listener.Close())
		}
	}
	if !strings.Contains(fmt.Sprint(s.commands), "--mysql") {
		return p
	}
	redis, err := servers.StartRedis(ctx, servers.RedisConfig{})
	check.Must(t, err)
	t.Cleanup(func() { _ = redis.Close() })
	mysql, err := servers.StartMySQL(ctx, servers.MySQLConfig{})
	check.Must(t, err)
	t.Cleanup(func() { _ = mysql.Close() })
	p.redis = redis.URL
	p.mysql, err = mysql.NewDatabase(ctx, "flashsale")
	check.Must(t, err)
	return p
}

// script returns a shell script that runs the commands one after the other. A server runs in
// the background until the next server starts or the script ends.
func (s section) script(here places, short bool) string {
	var b strings.Builder
	b.WriteString(`set -euo pipefail
server=
stop() { [ -z "$server" ] || { kill -- "-$server"; wait "$server" || true; server=; }; }
trap 'exit 143' TERM
trap stop EXIT
`)
	for i, c := range s.commands {
		fmt.Fprintf(&b, "echo '%s'\n", mark(i))
		line := c.line
		if part, ok := shortened[line]; ok && short {
			line = part
		}
		line = here.in(line)
		switch {
		case strings.Contains(line, "docker compose"):
			b.WriteString("trap 'docker compose --profile \"*\" down --volumes' EXIT\n" + line + "\n")
		case strings.Contains(line, "flashsale serve"):
			// "go run" does not forward signals, so the server gets its own process group.
			fmt.Fprintf(&b, "stop\nset -m\n%s &\nserver=$!\nset +m\n", line)
			fmt.Fprintf(&b, "until curl -fsS -o /dev/null http://%s/readyz 2>/dev/null; do kill -0 \"$server\"; sleep 0.1; done\n", here.addr)
		case strings.HasPrefix(line, "cd "):
			fmt.Fprintf(&b, "(%s)\n", line)
		case failing[c.line] != 0:
			fmt.Fprintf(&b, "%s && exit 99 || [ $? -eq %d ]\n", line, failing[c.line])
		default:
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(&b, "echo '%s'\n", mark(len(s.commands)))
	return b.String()
}

// mark returns the line that precedes the output of command i.
func mark(i int) string { return fmt.Sprintf("=====%d=====", i) }

var (
	spaces  = regexp.MustCompile(`\s+`)
	figures = regexp.MustCompile(`[0-9][0-9,.:]*`)
)

// shape returns a pattern that matches line with any figures and any spacing.
func shape(line string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.TrimSpace(line))
	pattern = figures.ReplaceAllString(strings.ReplaceAll(pattern, `\.`, "."), `[0-9,.:]+`)
	return regexp.MustCompile(spaces.ReplaceAllString(pattern, `\s+`))
}

// sections finds the commands of a document. Each key of shortened is in a document.
func TestSections(t *testing.T) {
	got := sections("# a\n```console\n$ one \\\n   more\n$ two\nout 1\nout 2\n```\n## none\n```sh\n$ no\n```\n## b\n```console\n$ go test ./...\n```\n" +
		"```console\nnot of it\n```\n```console\n$ three\n```\ntext\n```console\nlater\n```\n" +
		"## c\n```console\n$ four\n```\n## d\n```console\nof nothing\n```\n")
	want := "[{a [{one more } {two out 1}]} {b [{three later}]} {c [{four }]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("sections of the sample document: got %v, want %v", got, want)
	}
	if !shape("  ok  x: total 1,000 = 7.5s").MatchString("ok x:   total 20 = 12s") || shape("PASS").MatchString("FAIL") {
		t.Error("shape of an output line: it does not ignore figures and spacing, or it matches another line")
	}
	printed := make(map[string]bool)
	for _, file := range documents(t) {
		for _, m := range prompts.FindAllStringSubmatch(read(t, file), -1) {
			printed[m[1]] = true
		}
	}
	for line := range shortened {
		if !printed[line] {
			t.Errorf("output of the commands: got no line %q, which a document prints", line)
		}
	}
}
