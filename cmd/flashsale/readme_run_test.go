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

// runReadme in the environment has TestReadme run every command that the documents
// print: "full" as they are printed, "short" only a part of those that take
// minutes.
const runReadme = "FLASHSALE_TEST_README"

// shortened are commands that take minutes, and what is run of them where that
// must not be: all of it is tested, each by itself, in the packages.
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

// failing are commands that show a failure, and their exit status.
var failing = map[string]int{"go run ./cmd/flashsale demo --strategy get-decr --rate 1000 --duration 5s": 1}

// elsewhere are commands that CI runs in steps of their own.
var elsewhere = map[string]bool{
	"go run ./cmd/flashsale demo": true, "go test ./...": true, "go test ./orders/model": true, ".ci/run": true,
}

// byHand are sections whose commands CI does not run: databases that fail over take
// minutes, and other engines and a database of one's own are not there.
var byHand = []string{"Old sales", "MySQL failovers", "The database fails over", "Redis 8, Valkey and a changing cluster", "TiDB"}

// Every command of the README and of all other documents, by one shell for each
// section; what it prints begins as is printed there.
func TestReadme(t *testing.T) {
	mode := os.Getenv(runReadme)
	switch mode {
	case "":
		t.Skip("set " + runReadme + " to short or full")
	case "short", "full":
	default:
		t.Fatalf("%s=%s: want short or full", runReadme, mode)
	}
	for _, file := range documents(t) {
		for _, s := range sections(read(t, file)) {
			if s.heading == copySection || slices.Contains(byHand, s.heading) { // TestCopy runs the first elsewhere
				continue
			}
			t.Run(file+"/"+s.heading, func(t *testing.T) {
				if strings.Contains(s.commands[0].line, "docker ") && exec.CommandContext(t.Context(), "docker", "info").Run() != nil {
					t.Skip("no Docker engine")
				}
				// In short, figures are of no use to anybody; but bench fails where it is starved.
				if mode == "short" && !strings.Contains(s.commands[0].line, " bench ") {
					t.Parallel()
				}
				s.run(t, mode == "short")
			})
		}
	}
}

// A section is what stands below a heading: one goes through it in one sitting.
type section struct {
	heading  string
	commands []printed
}

// A printed command, and the first line of the output that is printed below it.
type printed struct{ line, output string }

// sections are those that have commands, with what is to be run of them.
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

// run has a shell run the section's commands, which ends with the first that
// does not do what it should.
func (s section) run(t *testing.T, short bool) {
	ctx := check.Context(t)
	here := s.places(ctx, t)
	bin := t.TempDir() // for "go install"
	cmd := exec.CommandContext(ctx, "bash", "-c", s.script(here, short))
	cmd.Dir = root
	cmd.Env = append(withoutOurs(os.Environ()), "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"FLASHSALE_ADDR="+here.addr, "FLASHSALE_TARGET=http://"+here.addr, "COMPOSE_PROJECT_NAME=flashsale-readme")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The shell takes what it started with it, see script.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	if err != nil {
		t.Errorf("%v\n%s", err, &out)
		return
	}
	for i, c := range s.commands {
		_, after, _ := strings.Cut(out.String(), mark(i))
		if of, _, _ := strings.Cut(after, mark(i+1)); !shape(c.output).MatchString(of) {
			t.Errorf("%s\nprints nothing like %q:\n%s", c.line, c.output, of)
		}
	}
}

// withoutOurs is an environment that sets none of the program's flags.
func withoutOurs(environment []string) (kept []string) {
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "FLASHSALE_") && !strings.HasPrefix(variable, asProgram) {
			kept = append(kept, variable)
		}
	}
	return kept
}

// places are where things are in a test that the README has at fixed ports.
type places struct{ addr, redis, mysql string }

// in puts a command there.
func (p places) in(command string) string {
	return strings.NewReplacer(
		"localhost:8080", p.addr, "127.0.0.1:8080", p.addr,
		"redis://localhost:6379/0", p.redis, "flashsale:password@tcp(localhost:3306)/flashsale", p.mysql,
	).Replace(command)
}

// places starts the stores that the section speaks of.
func (s section) places(ctx context.Context, t *testing.T) places {
	var p places
	for free := false; !free && ctx.Err() == nil; {
		// Below the ports that systems give out: those may be another's by the time a command listens.
		p.addr = fmt.Sprint("127.0.0.1:", 20_000+rand.N(10_000))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.addr)
		if free = err == nil; free {
			check.Must(t, listener.Close())
		}
	}
	if !strings.Contains(fmt.Sprint(s.commands), "--mysql") {
		return p
	}
	redis, err := servers.StartRedis(ctx, servers.RedisOptions{})
	check.Must(t, err)
	t.Cleanup(func() { _ = redis.Close() })
	mysql, err := servers.StartMySQL(ctx, servers.MySQLOptions{})
	check.Must(t, err)
	t.Cleanup(func() { _ = mysql.Close() })
	p.redis = redis.URL
	p.mysql, err = mysql.NewDatabase(ctx, "flashsale")
	check.Must(t, err)
	return p
}

// script runs each command where the one before it has done what it should. A
// server goes on in the background, as in a terminal of its own, until the
// next one or the end.
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
			// A group of its own: "go run" does not pass on what it is sent.
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

// mark comes before the output of a command.
func mark(i int) string { return fmt.Sprintf("=====%d=====", i) }

var (
	spaces  = regexp.MustCompile(`\s+`)
	figures = regexp.MustCompile(`[0-9][0-9,.:]*`)
)

// shape matches a line like this one, with other figures.
func shape(line string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.TrimSpace(line))
	pattern = figures.ReplaceAllString(strings.ReplaceAll(pattern, `\.`, "."), `[0-9,.:]+`)
	return regexp.MustCompile(spaces.ReplaceAllString(pattern, `\s+`))
}

// What the README means to be run is found in it.
func TestSections(t *testing.T) {
	got := sections("# a\n```console\n$ one \\\n   more\n$ two\nout 1\nout 2\n```\n## none\n```sh\n$ no\n```\n## b\n```console\n$ go test ./...\n```\n" +
		"```console\nnot of it\n```\n```console\n$ three\n```\ntext\n```console\nlater\n```\n" +
		"## c\n```console\n$ four\n```\n## d\n```console\nof nothing\n```\n")
	want := "[{a [{one more } {two out 1}]} {b [{three later}]} {c [{four }]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	if !shape("  ok  x: total 1,000 = 7.5s").MatchString("ok x:   total 20 = 12s") || shape("PASS").MatchString("FAIL") {
		t.Error("shape")
	}
	printed := make(map[string]bool)
	for _, file := range documents(t) {
		for _, m := range prompts.FindAllStringSubmatch(read(t, file), -1) {
			printed[m[1]] = true
		}
	}
	for line := range shortened {
		if !printed[line] {
			t.Errorf("no document prints %q", line)
		}
	}
}
