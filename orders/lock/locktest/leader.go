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

// One process leads at a time, nobody runs the task beside it, and when it
// resigns the other one takes over.
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
				s.Error("two leaders")
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
			check.OK(s, election.Lead(ctx, p, s.key, task, func(err error) { s.Error(err) }))
		})
	}
	first := s.leader(leads)
	ran, err := election.Once(s.ctx, processes[1-first], s.key, func(context.Context) error { return errors.New("there is a leader") })
	if ran || err != nil {
		s.Errorf("beside the leader: ran %v, %v", ran, err)
	}
	resign[first]()
	if second := s.leader(leads); second == first {
		s.Error("who has resigned leads again")
	}
}

// Run and Lead end with one context, as in any errgroup: the lead is given up.
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
	return check.Receive(s, "a leader", leads)
}
