// Package locktest contains the test suite for implementations of lease.Locker. The suite uses
// only the interface, and injects faults on the network between clients and servers.
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

// A Store describes a kind of lock and its servers.
type Store struct {
	// Servers contains the addresses of the servers: several if the lock needs a majority.
	Servers []string
	// New returns a Locker of a new process. servers contains an address for each of
	// Servers, in their order. New closes what it opens by t.Cleanup.
	New func(t testing.TB, servers []string, cfg lease.Config) lease.Locker
	// Fence returns an Issuer for the locks of l.
	Fence func(t testing.TB, l lease.Locker) fence.Issuer
	// Steal takes the lock from its holder, directly at the servers.
	Steal func(t testing.TB, key string)
	// Waiters returns the number of waiters at the servers. It is set if a client cannot
	// know when the server has queued its request.
	Waiters func(t testing.TB, key string) int
	// Ready, if set, reports whether a running Locker receives grants. Until then, other
	// waiters may be served first.
	Ready func(l lease.Locker) bool
	// Acquires, Renews and Releases report whether chunk contains a request that acquires, renews
	// or releases a lock.
	Acquires, Renews, Releases func(chunk []byte) bool

	// Lease is the lease of tests that wait for its end.
	Lease time.Duration
	// InOrder is set if waiting processes are served in the order of their requests.
	InOrder bool
	// Reentrant is set if a process can acquire a lock that it already holds.
	Reentrant bool
	// TiedToConnection is set if the server frees the lock when the connection breaks.
	// The holder then detects the loss only at the next renewal.
	TiedToConnection bool
	// LeaseOfSession is set if a call cannot change the lease.
	LeaseOfSession bool
}

// The busy tests run first, one at a time. The other tests run in parallel, because they wait
// for leases.
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

// Run runs the suite on s.
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

// RunInTime is like Run, for servers in the in-memory network of wire.Serve. Each test runs in
// a bubble of testing/synctest with its own servers, so waiting for a lease takes no time.
func RunInTime(t *testing.T, start func(t *testing.T) Store) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			servertest.Bubble(t, func(t *testing.T) { test.test(t, newSuite(t, start(t))) })
		})
	}
}

// A suite is the environment of one test.
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

// A process stands for a program with a Locker. Its connections pass wires that tests can cut.
type process struct {
	lease.Locker
	wires []*wire.Wire
	kill  func() // stops Run and waits for its end
}

// process returns a process whose Locker runs.
func (s *suite) process(cfg lease.Config) *process {
	s.Helper()
	p := s.idle(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("Run of the client: got error %v, want none", err)
		}
	})
	s.Cleanup(p.kill)
	if s.Ready != nil {
		check.Eventually(s, "the client is ready", func() bool { return s.Ready(p.Locker) })
	}
	return p
}

// idle returns a process without Run, which renews nothing.
func (s *suite) idle(cfg lease.Config) *process {
	s.Helper()
	if cfg.Lease == 0 {
		if cfg.Lease = time.Minute; s.LeaseOfSession {
			cfg.Lease = 9 * time.Second // a longer lease than the server grants is rejected
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.Lease * 2 / 3 // parallel tests make the machine slow
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

// cut makes the process unreachable, as if it had crashed.
func (p *process) cut() {
	for _, w := range p.wires {
		w.Cut()
	}
}

// lose makes each server lose its next answer to a request that matches. losses returns the
// number of lost answers.
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

// wantHeld fails unless TryAcquire returns ErrHeld.
func (s *suite) wantHeld(p *process) {
	s.Helper()
	if l, err := p.TryAcquire(s.ctx, s.key); !errors.Is(err, lease.ErrHeld) {
		s.Fatalf("acquire a held lock: got %v, error %v, want ErrHeld", l, err)
	}
}

// tryAgain calls TryAcquire in the process that holds the lock. It fails unless the outcome is
// ErrHeld, or success if the lock is reentrant.
func (s *suite) tryAgain(p *process) {
	s.Helper()
	if !s.Reentrant {
		s.wantHeld(p)
		return
	}
	l, err := p.TryAcquire(s.ctx, s.key)
	check.Must(s, err)
	check.Must(s, l.Release(s.ctx))
}

// wantFree fails unless the lock can be acquired.
func (s *suite) wantFree(p *process) {
	s.Helper()
	l, err := p.Acquire(s.ctx, s.key)
	if err != nil {
		s.Fatalf("lock after the release: got error %v, want it free", err)
	}
	check.Must(s, l.Release(s.ctx))
}

// ended waits for the end of a lock's context and returns its cause.
func (s *suite) ended(l *lease.Lock) error {
	s.Helper()
	check.Receive(s, "the lock's context ends", l.Context().Done())
	return context.Cause(l.Context())
}
