package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/ratelimit"
)

// tally counts decisions, as metrics do.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) decide(d Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	what := d.Bucket + " " + string(d.Outcome)
	if d.Shadow {
		what += " shadow"
	}
	c.counts[what]++
}

func (c *tally) want(t *testing.T, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !maps.Equal(c.counts, want) {
		t.Errorf("counts of the admission: got %v, want %v", c.counts, want)
	}
}

// While Redis is down, the route's policy decides. Every decision is counted, and nothing
// needs a restart when Redis is back.
func TestPolicyWhileRedisIsDown(t *testing.T) {
	for _, c := range []struct {
		policy  Policy
		admits  []bool // one request after the other, while Redis is down
		outcome map[string]int
	}{
		{Open, []bool{true, true, true}, map[string]int{" failed_open": 3}},
		{Closed, []bool{false, false, false}, map[string]int{" failed_closed": 3}},
		{Local, []bool{true, false, false}, map[string]int{" local_allowed": 1, "buyer local_denied": 2}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			server, client := servertest.StartWithFrozenClock(t)
			var counted tally
			l := ratelimit.New(client, ratelimit.Config{Timeout: time.Hour, Remember: -1})
			control := New(l, counted.decide).With(Rules{WhenAway: c.policy})
			b := forBuyer("b1", parse(t, "1/h:1"))
			admit := func() (ratelimit.Result, error) { return control.Admit(t.Context(), 1, b) }
			answers := func() bool {
				_, err := l.Peek(t.Context(), b)
				return err == nil
			}

			if r, err := admit(); err != nil || !r.Allowed {
				t.Fatalf("before Redis is down: got %+v, error %v, want allowed", r, err)
			}
			server.Close()
			for n, want := range c.admits {
				if n == len(c.admits)-1 { // Redis accepts connections but rejects commands
					check.Must(t, server.Restart())
					check.Eventually(t, "Redis is back", answers)
					server.SetError("LOADING Redis is loading the dataset in memory")
				}
				r, err := admit()
				if r.Allowed != want || want != (err == nil) || c.policy == Closed && !errors.Is(err, ratelimit.ErrUnavailable) {
					t.Errorf("while Redis is down, request %d: got %+v, error %v, want allowed %v", n, r, err, want)
				}
			}
			check.Is(t, check.Err(l.Peek(t.Context(), b)), ratelimit.ErrUnavailable)
			server.SetError("")
			check.Eventually(t, "Redis has loaded", answers)
			var limited *LimitedError
			if _, err := admit(); !errors.As(err, &limited) || limited.Result.Bucket != "buyer" {
				t.Errorf("after Redis is back: got error %v, want a refusal by the buyer's bucket", err)
			}
			c.outcome[" allowed"], c.outcome["buyer denied"] = 1, 1
			counted.want(t, c.outcome)
		})
	}
}

// Each route has its own rules, and all routes share the tokens.
func TestEachRouteHasItsOwnRules(t *testing.T) {
	server, client := servertest.StartWithFrozenClock(t)
	var mu sync.Mutex
	var decisions []Decision
	control := New(ratelimit.New(client, ratelimit.Config{Timeout: time.Hour, Remember: -1}), func(d Decision) {
		mu.Lock()
		defer mu.Unlock()
		decisions = append(decisions, d)
	})
	b := forBuyer("b1", parse(t, "1/h:1"))
	place, read := control.With(Rules{Route: "place", WhenAway: Closed}), control.With(Rules{Route: "read"})
	ask := func(c *Control) bool {
		_, err := c.Admit(t.Context(), 1, b)
		return err == nil
	}
	got := []bool{ask(place), ask(read)}
	server.Close()
	got = append(got, ask(place), ask(read))
	if want := []bool{true, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("admissions of the routes: got %v, want %v", got, want)
	}
	want := []Decision{{Route: "place", Outcome: Allowed}, {Route: "read", Bucket: "buyer", Outcome: Denied},
		{Route: "place", Outcome: FailedClosed}, {Route: "read", Outcome: FailedOpen}}
	if !slices.Equal(decisions, want) {
		t.Errorf("counted decisions: got %v, want %v", decisions, want)
	}
}

// With Shadow, the same decisions are counted, and no request is refused.
func TestShadowRefusesNoRequest(t *testing.T) {
	server, client := servertest.StartWithFrozenClock(t)
	for _, shadow := range []bool{false, true} {
		var counted tally
		config := ratelimit.Config{Timeout: time.Minute}
		rules := Rules{Shadow: shadow, WhenAway: Closed}
		control := New(ratelimit.New(client, config), counted.decide).With(rules)
		b := forBuyer(fmt.Sprint(shadow), parse(t, "1/h:2"))
		refused := 0
		for n := range 5 {
			if n == 4 {
				server.SetError("LOADING")
				config.Remember = -1
				control = New(ratelimit.New(client, config), counted.decide).With(rules)
			}
			r, err := control.Admit(t.Context(), 1, b)
			if err != nil {
				refused++
			}
			if shadow && r != (ratelimit.Result{Allowed: true}) {
				t.Errorf("request %d in shadow mode: got %+v, want only Allowed", n, r)
			}
		}
		server.SetError("")
		want := map[string]int{" allowed": 2, "buyer denied": 1, "buyer remembered": 1, " failed_closed": 1}
		if shadow {
			for what, n := range want {
				delete(want, what)
				want[what+" shadow"] = n
			}
		}
		counted.want(t, want)
		if expected := map[bool]int{false: 3, true: 0}[shadow]; refused != expected {
			t.Errorf("limiter, shadow %v: got %d refused, want %d", shadow, refused, expected)
		}
	}
}

// A request whose context ends, or with wrong arguments, is not counted, and no policy
// lets it pass.
func TestErrorsAreNotDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: ":1"})
		defer func() { _ = client.Close() }()
		client.AddHook(hangs{})
		var counted tally
		control := New(ratelimit.New(client, ratelimit.Config{}), counted.decide)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for name, want := range map[string]error{"b1": context.DeadlineExceeded, "": ratelimit.ErrBadRequest} {
			r, err := control.Admit(ctx, 1, forBuyer(name, parse(t, "5/s")))
			if check.Is(t, err, want); r.Allowed {
				t.Errorf("order of buyer %q: got %+v, want it not allowed", name, r)
			}
		}
		counted.want(t, map[string]int{})
		time.Sleep(time.Second) // the call ends after its Timeout
	})
}

// hangs is a hook that never answers a command.
type hangs struct{}

func (hangs) DialHook(next redis.DialHook) redis.DialHook { return next }
func (hangs) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { <-ctx.Done(); return ctx.Err() }
}
func (hangs) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
