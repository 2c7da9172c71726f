package antipatterns

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock"
	"flashsale/orders/lock/lease"
)

const key = "lock:{sku}"

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // a server that is down is part of the story
	m.Run()
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// A scene is an empty Redis in a bubble of testing/synctest, in which time passes only
// while all goroutines wait, or when the plot advances the clock of the Redis.
type scene struct {
	*testing.T
	ctx  context.Context
	mini *miniredis.Miniredis
	rdb  *redis.Client
}

// show plays the same plot twice. The broken lock must come to harm, which is
// the error it returns, and ours must not.
func show(t *testing.T, broken, ours func(s *scene) error) {
	t.Helper()
	for name, plot := range map[string]func(*scene) error{"broken": broken, "ours": ours} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				s := &scene{T: t, ctx: t.Context()}
				s.mini, s.rdb = s.server()
				end(t, name, plot(s))
			})
		})
	}
}

// showOutside is show without a bubble, for plots that start real servers.
func showOutside(t *testing.T, broken, ours func(s *scene) error) {
	t.Helper()
	for name, plot := range map[string]func(*scene) error{"broken": broken, "ours": ours} {
		t.Run(name, func(t *testing.T) { end(t, name, plot(&scene{T: t, ctx: check.Context(t)})) })
	}
}

func end(t *testing.T, name string, harm error) {
	t.Logf("=> %v", harm)
	if (harm == nil) == (name == "broken") {
		t.Fatal("the broken lock must fail, and ours must not")
	}
}

func (s *scene) server() (*miniredis.Miniredis, *redis.Client) {
	mini := servertest.InTime(s.T).Mini
	return mini.Server, servertest.Connect(s, mini.Addr)
}

// say is a line of the story.
func (s *scene) say(format string, args ...any) {
	s.Helper()
	s.Logf(format, args...)
}

// pass lets time pass on the server.
func (s *scene) pass(d time.Duration) {
	s.Helper()
	s.Logf("%v pass", d)
	s.mini.FastForward(d)
}

// ours is a process with our lock.
func (s *scene) ours() *lock.Client {
	return lock.New(s.rdb, config)
}

// long is the lease: so long that that only the time that a story lets pass counts.
const long = time.Hour

var config = lease.Config{Lease: long, Timeout: time.Minute}

// enters reports whether one more process gets in.
func (s *scene) enters(c lease.Locker) bool {
	s.Helper()
	_, err := c.TryAcquire(s.ctx, key)
	if err != nil && !errors.Is(err, lease.ErrHeld) {
		s.Fatal(err)
	}
	return err == nil
}

var (
	errBoth    = errors.New("two holders at once")
	errForever = errors.New("locked for ever: no holder, and no expiry")
)

// A resource is written under the lock. It issues fencing tokens itself, with
// raise, and keeps the last one with what is written: what MySQL is to this
// project. unfenced doesn't look at them.
type resource struct {
	unfenced bool
	fence    int
	written  []string
}

func (r *resource) raise() int { r.fence++; return r.fence }

func (r *resource) write(fence int, what string) error {
	if fence != r.fence && !r.unfenced {
		return errors.New("fenced off")
	}
	r.written = append(r.written, what)
	return nil
}
