package ratelimit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// Each file in antipatterns is a limiter with a fault. Its header lists steps that show
// the fault: how many requests pass, and how many should. The test runs these steps with
// the faulty limiter, with this package's limiter and with a model, so the headers are
// correct.
//
//	go test -run Antipattern -v ./ratelimit
func TestAntipatterns(t *testing.T) {
	files, err := filepath.Glob("antipatterns/*.lua")
	if err != nil || len(files) < 9 {
		t.Fatalf("antipatterns: got %d files, error %v, want at least 9", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		t.Run(name, func(t *testing.T) {
			e := readAntipattern(t, name)
			t.Log(e.title)
			for who, ask := range map[string]asker{
				"this limiter": ours, "this limiter, one call per slot": oursPerSlot,
			} {
				for n, got := range follow(t, e, ask) {
					if s := e.steps[n]; got != s.should && !s.dies { // a node that died receives no answer
						t.Errorf("antipattern of %s, step %s: got %d, want %d", who, s.text, got, s.should)
					}
				}
			}
			shows := false
			for n, got := range follow(t, e, e.ask) {
				s := e.steps[n]
				if got != s.passes {
					t.Errorf("step %q: got %d that pass, want %d", s.text, got, s.passes)
				}
				shows = shows || got != s.should
				t.Logf("  %-70s this limiter: %d", s.text, s.should)
			}
			if !shows {
				t.Error("antipattern: got no fault in its steps, want one")
			}
		})
	}
}

// An antipattern is the content of one file.
type antipattern struct {
	title  string
	source string
	steps  []step
}

// A step is a number of equal requests, some time after the previous step. A negative
// time sets the clock back.
type step struct {
	text           string
	repeat, times  int
	after          time.Duration
	on             []Bucket
	dies           bool // the node dies after its first command to Redis
	passes, should int
}

var stepText = regexp.MustCompile(`^--   (?:(\d+) times )?(?:after (\S+), )?(\d+) ask (\w+)(?: and (sku))?( and the node dies)?: (\d+) pass(?:, and (\d+) should)?$`)

func readAntipattern(t *testing.T, name string) antipattern {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("antipatterns", name+".lua"))
	check.Must(t, err)
	lines := strings.Split(string(source), "\n")
	e := antipattern{title: strings.TrimPrefix(lines[0], "-- "), source: string(source)}
	buckets := map[string]Bucket{}
	for _, line := range lines {
		if !strings.HasPrefix(line, "--   ") {
			continue
		}
		if what, isLimit := strings.CutPrefix(line, "--   limit "); isLimit {
			name, text, _ := strings.Cut(what, " ")
			buckets[name] = Bucket{Name: name, ID: "b1", Limit: parse(t, text)}
			continue
		}
		part := stepText.FindStringSubmatch(line)
		if part == nil {
			t.Fatalf("antipattern %s: got a line that is not a step: %s", name, line)
		}
		s := step{text: strings.TrimPrefix(line, "--   "), repeat: 1, on: []Bucket{buckets[part[4]]}, dies: part[6] != ""}
		s.times, s.passes = whole(t, part[3]), whole(t, part[7])
		s.should = s.passes
		if part[1] != "" {
			s.repeat = whole(t, part[1])
		}
		if part[2] != "" {
			if s.after, err = time.ParseDuration(part[2]); err != nil {
				t.Fatalf("duration of a step: got error %v, want none", err)
			}
		}
		if part[5] != "" {
			s.on = append(s.on, buckets[part[5]])
		}
		if part[8] != "" {
			s.should = whole(t, part[8])
		}
		e.steps = append(e.steps, s)
	}
	return e
}

func whole(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	check.Must(t, err)
	return n
}

// A visit is the state of a step. passed is the time since the first step, which never
// goes back, unlike the server's clock.
type visit struct {
	client *redis.Client
	passed time.Time
	dies   bool
}

// An asker is a limiter in its simplest form: it takes one token from each bucket.
type asker func(ctx context.Context, v visit, on []Bucket) (bool, error)

// follow runs the steps and returns the number of requests that passed in each. It
// compares the model with the numbers that should pass.
func follow(t *testing.T, e antipattern, ask asker) []int {
	t.Helper()
	server, client := startEmbedded(t)
	clock, m := epoch, newModel(epoch)
	var passed []int
	for _, s := range e.steps {
		got, due := 0, 0
		for range s.repeat {
			clock = clock.Add(s.after)
			server.SetTime(clock)
			m.now = m.now.Add(max(s.after, 0))
			for range s.times {
				if m.take(ask1(s.on)).taken {
					due++
				}
				allowed, err := ask(t.Context(), visit{client, m.now, s.dies}, s.on)
				check.Must(t, err)
				if allowed {
					got++
				}
			}
		}
		if due != s.should {
			t.Errorf("step %q: the model lets %d pass, want %d", s.text, due, s.should)
		}
		passed = append(passed, got)
	}
	return passed
}

func ask1(on []Bucket) ask { return ask{cost: 1, buckets: on} }

func (e antipattern) ask(ctx context.Context, v visit, on []Bucket) (bool, error) {
	var keys []string
	var args []any
	for _, b := range on {
		keys = append(keys, b.key(defaultPrefix))
		args = append(args, b.Limit.Burst(), b.Limit.Window().Microseconds(), b.Limit.Burst(), 1)
	}
	return v.client.Eval(ctx, e.source, keys, append(args, v.dies)...).Bool()
}

func ours(ctx context.Context, v visit, on []Bucket) (bool, error) {
	r, err := New(v.client, patient).Allow(ctx, 1, on...)
	return r.Allowed, err
}

func oursPerSlot(ctx context.Context, v visit, on []Bucket) (bool, error) {
	l := New(v.client, patient)
	l.perSlot = true
	r, err := l.Allow(ctx, 1, on...)
	return r.Allowed, err
}

// The test itself finds a wrong number: this is its broken twin.
func TestAntipatternsNoticeAWrongNumber(t *testing.T) {
	e := readAntipattern(t, "integer_seconds")
	if got := follow(t, e, ours); fmt.Sprint(got) != "[10 0]" {
		t.Errorf("this limiter: got %v, want [10 0]", got)
	}
	if got := follow(t, e, e.ask); fmt.Sprint(got) != "[10 10]" {
		t.Errorf("antipattern: got %v, want [10 10]", got)
	}
}
