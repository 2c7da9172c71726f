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
	redis.SetLogger(silence{}) // the tests stop servers on purpose
	m.Run()
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// A scene is an empty Redis in a bubble of testing/synctest. Time passes only while all
// goroutines wait, or when a plot advances the clock of the Redis.
type scene struct {
	*testing.T
	ctx  context.Context
	mini *miniredis.Miniredis
	rdb  *redis.Client
}

// show runs a plot with a broken lock and with ours. A plot returns an error if the lock fails:
// the broken lock must fail, and ours must not.
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

// showOutside is like show, but without a bubble, for plots that start servers of their own.
func showOutside(t *testing.T, broken, ours func(s *scene) error) {
	t.Helper()
	for name, plot := range map[string]func(*scene) error{"broken": broken, "ours": ours} {
		t.Run(name, func(t *testing.T) { end(t, name, plot(&scene{T: t, ctx: check.Context(t)})) })
	}
}

func end(t *testing.T, name string, failure error) {
	t.Logf("=> %v", failure)
	if (failure == nil) == (name == "broken") {
		t.Fatalf("antipattern with the %s lock: got %v, want a failure of the broken lock only", name, failure)
	}
}

func (s *scene) server() (*miniredis.Miniredis, *redis.Client) {
	mini := servertest.InTime(s.T).Mini
	return mini.Server, servertest.Connect(s, mini.Addr)
}

// say logs a step.
func (s *scene) say(format string, args ...any) {
	s.Helper()
	s.Logf(format, args...)
}

// pass advances the server's clock.
func (s *scene) pass(d time.Duration) {
	s.Helper()
	s.Logf("%v pass", d)
	s.mini.FastForward(d)
}

// ours returns a client of our lock, for a new process.
func (s *scene) ours() *lock.Client {
	return lock.New(s.rdb, config)
}

// oursOutlived is a plot with our lock: A works longer than its lease, and then releases the lock,
// which B has acquired.
func oursOutlived(s *scene) error {
	s.say("A acquires the lock, and works longer than its lease")
	a, err := s.ours().TryAcquire(s.ctx, key)
	check.Must(s, err)
	s.pass(long)
	s.say("B and C try to acquire the lock; the script is atomic, so only one of them succeeds")
	b, err := s.ours().TryAcquire(s.ctx, key)
	check.Must(s, err)
	if s.acquires(s.ours()) {
		return errBoth
	}
	s.say("A releases the lock by one script, on any connection: %v", a.Release(s.ctx))
	s.say("C tries to acquire the lock while B holds it")
	if s.acquires(s.ours()) {
		return errBoth
	}
	s.say("B releases the lock")
	return b.Release(s.ctx)
}

// long is a lease that ends only if a plot advances the clock.
const long = time.Hour

var config = lease.Config{Lease: long, Timeout: time.Minute}

// acquires reports whether c can acquire the lock.
func (s *scene) acquires(c lease.Locker) bool {
	s.Helper()
	_, err := c.TryAcquire(s.ctx, key)
	if err != nil && !errors.Is(err, lease.ErrHeld) {
		s.Fatalf("acquire the lock: got error %v, want none or ErrHeld", err)
	}
	return err == nil
}

var (
	errBoth    = errors.New("two holders at once")
	errForever = errors.New("locked forever: no holder and no expiry")
)

// A resource is written under the lock, like a database. It issues fencing tokens by raise, and
// accepts only the last one.
type resource struct {
	unfenced bool // accept all writes
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
