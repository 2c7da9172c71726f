// Package locktest is the one suite that every Locker has to pass, whatever
// store keeps its locks. It knows a lock by its interface alone; what goes wrong
// happens on the network, between the store's clients and its servers.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
)

// A Store is a kind of lock, and the servers it runs on.
type Store struct {
	// Servers are the addresses; several for a lock that needs a majority.
	Servers []string
	// New is a Locker of a new process that reaches the servers at these
	// addresses, in their order. What it opens it closes by t.Cleanup.
	New func(t testing.TB, servers []string, cfg lease.Config) lease.Locker
	// Fence of the locks that such a Locker takes, by the same addresses.
	Fence func(t testing.TB, l lease.Locker) fence.Issuer
	// Steal takes the lock away from whoever holds it, at the servers.
	Steal func(t testing.TB, key string)
	// Waiters, if set, is how many wait at the servers: for a store whose client
	// can't know when it is in line.
	Waiters func(t testing.TB, key string) int
	// Ready, if set, is whether a Locker whose Run has begun hears of releases:
	// until then the others may be served before it.
	Ready func(l lease.Locker) bool
	// Acquires, Renews and Releases tell what a client sends.
	Acquires, Renews, Releases func(chunk []byte) bool

	// Lease is for the tests in which somebody has to wait for its end.
	Lease time.Duration
	// InOrder: processes are served in the order in which they asked. Else each
	// of them is served, and nobody promises when.
	InOrder bool
	// Reentrant: a process that holds the lock may take it again, in any of its
	// goroutines; only processes are kept apart.
	Reentrant bool
	// TiedToConnection: the server frees the lock when the connection breaks, and
	// its holder learns of that at the next renewal only.
	TiedToConnection bool
	// LeaseOfSession: no call can have a lease of its own.
	LeaseOfSession bool
}

// The busy ones come first, one at a time: what waits for the end of a lease
// should not wait for them.
var tests = []struct {
	name string
	busy bool
	test func(*testing.T, *suite)
}{
	{"NoStore", false, noStore},
	{"OneHolder", true, oneHolder},
	{"ThousandsOfWaiters", true, thousandsOfWaiters},
	{"Outcomes", false, outcomes},
	{"Crash", false, crash},
	{"Pause", false, pause},
	{"Expiry", false, expiry},
	{"MaxHold", false, maxHold},
	{"Stolen", false, stolen},
	{"LostReplyOnAcquire", false, lostReplyOnAcquire},
	{"LostReplyOnRenew", false, lostReplyOnRenew},
	{"LostReplyOnRelease", false, lostReplyOnRelease},
	{"CancelledWait", false, cancelledWait},
	{"NotRunning", false, notRunning},
	{"Order", false, order},
	{"Stop", false, stop},
	{"Leader", false, leader},
	{"StopLeading", false, stopLeading},
	{"Hooks", false, hooks},
	{"PerCall", false, perCall},
	{"Extend", false, extend},
	{"Observe", false, observe},
}

// Run runs the suite. The package's TestMain looks for goroutines left behind.
func Run(t *testing.T, s Store) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if !test.busy {
				t.Parallel()
			}
			test.test(t, newSuite(t, s))
		})
	}
}

// RunInTime is Run for servers in the in-memory network of wire.Serve. Each test runs in its
// own bubble of testing/synctest with its own servers, so waiting for a lease takes no time.
func RunInTime(t *testing.T, start func(t *testing.T) Store) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			servertest.Bubble(t, func(t *testing.T) { test.test(t, newSuite(t, start(t))) })
		})
	}
}

// A suite is one test's view of a store.
type suite struct {
	Store
	*testing.T
	ctx context.Context
	key string
}

var keys atomic.Int64

func newSuite(t *testing.T, s Store) *suite {
	return &suite{s, t, check.Context(t), fmt.Sprintf("lock:{%d}", keys.Add(1))}
}

// A process has a Locker that runs, and connections that can be harmed.
type process struct {
	lease.Locker
	wires []*wire.Wire
	kill  func() // ends Run, and waits for it
}

// process starts one.
func (s *suite) process(cfg lease.Config) *process {
	s.Helper()
	p := s.idle(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("Run: %v", err)
		}
	})
	s.Cleanup(p.kill)
	if s.Ready != nil {
		check.Eventually(s, "ready", func() bool { return s.Ready(p.Locker) })
	}
	return p
}

// idle is a process that does not renew anything.
func (s *suite) idle(cfg lease.Config) *process {
	s.Helper()
	if cfg.Lease == 0 {
		if cfg.Lease = time.Minute; s.LeaseOfSession {
			cfg.Lease = 9 * time.Second // a longer lease than the server grants is rejected
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.Lease * 2 / 3 // other tests run at the same time
	}
	var p process
	var addrs []string
	for _, server := range s.Servers {
		w := servertest.OpenWire(s, server)
		p.wires = append(p.wires, w)
		addrs = append(addrs, w.Addr())
	}
	p.Locker = s.New(s, addrs, cfg)
	return &p
}

// cut is the end of the process, as seen from outside.
func (p *process) cut() {
	for _, w := range p.wires {
		w.Cut()
	}
}

// lose loses the next answer of each server to what matches, and counts them.
func (p *process) lose(match func([]byte) bool) (losses func() int) {
	var lost []func() int
	for _, w := range p.wires {
		lost = append(lost, w.LoseAnswers(1, match))
	}
	return func() (n int) {
		for _, count := range lost {
			n += count()
		}
		return n
	}
}

func (s *suite) acquire(p *process) *lease.Lock {
	s.Helper()
	l, err := p.Acquire(s.ctx, s.key)
	check.Must(s, err)
	return l
}

// taken fails unless somebody holds the lock.
func (s *suite) taken(p *process) {
	s.Helper()
	if l, err := p.TryAcquire(s.ctx, s.key); !errors.Is(err, lease.ErrHeld) {
		s.Fatalf("second holder: %v, %v; want ErrHeld", l, err)
	}
}

// again fails unless a process that holds the lock hears so when it asks again.
func (s *suite) again(p *process) {
	s.Helper()
	if !s.Reentrant {
		s.taken(p)
		return
	}
	l, err := p.TryAcquire(s.ctx, s.key)
	check.Must(s, err)
	check.Must(s, l.Release(s.ctx))
}

// free fails unless the lock can soon be had.
func (s *suite) free(p *process) {
	s.Helper()
	l, err := p.Acquire(s.ctx, s.key)
	if err != nil {
		s.Fatalf("the lock is not free: %v", err)
	}
	check.Must(s, l.Release(s.ctx))
}

// ended waits for the end of a lock's context and returns its cause.
func (s *suite) ended(l *lease.Lock) error {
	s.Helper()
	check.Receive(s, "the lock's context ends", l.Context().Done())
	return context.Cause(l.Context())
}
