package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/election"
	"flashsale/orders/lock/lease"
)

// One process is the leader at a time, Once does not run a task while there is a leader, and
// after the leader resigns the other process becomes the leader.
func leader(_ *testing.T, s *suite) {
	leads := make(chan int)
	var leading atomic.Int32
	var processes []*process
	var resign []context.CancelFunc
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 2 {
		p := s.process(lease.Config{})
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		processes, resign = append(processes, p), append(resign, cancel)
		task := func(ctx context.Context) error {
			if leading.Add(1) > 1 {
				s.Error("leaders: got two at the same time, want at most one")
			}
			defer leading.Add(-1)
			select {
			case leads <- i:
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		}
		all.Go(func() {
			check.OK(s, election.Lead(ctx, p, s.key, task, func(err error) { s.Errorf("lead: got error %v, want none", err) }))
		})
	}
	first := s.leader(leads)
	ran, err := election.Once(s.ctx, processes[1-first], s.key, func(context.Context) error { return errors.New("ran during a leader's term") })
	if ran || err != nil {
		s.Errorf("Once while there is a leader: got %t, error %v, want false, nil", ran, err)
	}
	resign[first]()
	if second := s.leader(leads); second == first {
		s.Error("leader after a resignation: got the process that has resigned, want the other one")
	}
}

// If Run and Lead end with the same context, as in an errgroup, Lead still releases the lock.
func stopLeading(_ *testing.T, s *suite) {
	other := s.process(lease.Config{})
	for range 10 {
		p, leads := s.idle(lease.Config{}), make(chan int)
		ctx, stop := context.WithCancel(s.ctx)
		var all sync.WaitGroup
		all.Go(func() { check.Must(s, p.Run(ctx)) })
		all.Go(func() {
			_ = election.Lead(ctx, p, s.key, func(ctx context.Context) error {
				leads <- 1
				<-ctx.Done()
				return nil
			}, nil)
		})
		s.leader(leads)
		stop()
		all.Wait()
		l, err := other.TryAcquire(s.ctx, s.key)
		check.Must(s, err)
		check.Must(s, l.Release(s.ctx))
	}
}

func (s *suite) leader(leads <-chan int) int {
	s.Helper()
	return check.Receive(s, "a leader is elected", leads)
}
