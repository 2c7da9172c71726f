package pipeline

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/inventory/coalesce"
	"flashsale/loadtest/servers/servertest/check"
)

// together stops commands until the given number of commands has arrived, each sent separately.
type together struct {
	redis.Hook
	there *sync.WaitGroup
}

func (h together) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		h.there.Done()
		h.there.Wait()
		cmd.(*redis.Cmd).SetVal(int64(1))
		return nil
	}
}

func (together) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(errors.New("sent in a pipeline"))
		}
		return nil
	}
}

func (together) DialHook(next redis.DialHook) redis.DialHook { return next }

// In a cluster, a call does not wait for the node of another call's key.
func TestClusterSendsOneByOne(t *testing.T) {
	const callers = 200
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}})
	defer func() { _ = cluster.Close() }()
	var there, all sync.WaitGroup
	there.Add(callers)
	cluster.AddHook(together{there: &there})
	s := New(cluster, time.Minute, nil)
	errs := make([]error, callers)
	for i := range errs {
		all.Go(func() { errs[i] = s.Do(t.Context(), "GET", "k").Err() })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	check.Receive(t, "the end of all calls", done)
	check.OK(t, errors.Join(errs...))
}

// demoted is a master that has become a replica. In a pipeline, reads succeed and writes
// fail. Single commands reach the new master. The first command waits until the other
// commands have arrived.
type demoted struct {
	redis.Hook
	under, free chan struct{}
}

type readOnly struct{}

func (readOnly) Error() string { return "READONLY You can't write against a read only replica." }
func (readOnly) RedisError()   {}

func (demoted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h demoted) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if cmd.Args()[0] == "first" {
			close(h.under)
			<-h.free
		}
		cmd.SetErr(nil)
		return nil
	}
}

func (demoted) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			switch cmd.Args()[0] {
			case "write":
				cmd.SetErr(readOnly{})
			case "gone":
				cmd.SetErr(errors.New("sent although its caller has given up"))
			}
		}
		return nil
	}
}

// A read succeeds on a demoted master. The rejected writes of its pipeline are sent
// again, except with Once. The command of a caller that has given up is not sent.
func TestDemotedMaster(t *testing.T) {
	for _, once := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{Addr: ":1", PoolSize: 2}) // one call at a time
		h := demoted{under: make(chan struct{}), free: make(chan struct{})}
		rdb.AddHook(h)
		s := New(rdb, time.Minute, nil)
		s.Once = once
		var all sync.WaitGroup
		errs := make([]error, 5)
		ctx, giveUp := context.WithCancel(t.Context())
		ask := func(ctx context.Context, i int, name string) {
			all.Go(func() { errs[i] = s.Do(ctx, name, "k").Err() })
		}
		ask(t.Context(), 0, "first")
		<-h.under
		for i, name := range []string{"read", "write", "write", "gone"} {
			caller := t.Context()
			if name == "gone" {
				caller = ctx
			}
			ask(caller, i+1, name)
			for s.Group.Len() != i+2 {
				runtime.Gosched()
			}
		}
		giveUp()
		close(h.free)
		all.Wait()
		_ = rdb.Close()
		check.Is(t, errs[4], context.Canceled)
		for i, err := range errs[:4] {
			if refused := once && i > 1; (err != nil) != refused {
				t.Errorf("writes with Once %v, command %d: got error %v, want an error only for a resent write with Once", once, i, err)
			}
		}
	}
}

// The command of a caller that has given up is not sent.
func TestCommandOfEndedContextIsNotSent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	rdb := redis.NewClient(&redis.Options{Addr: ":1"})
	defer func() { _ = rdb.Close() }()
	check.Is(t, New(rdb, time.Minute, nil).Do(ctx, "PING").Err(), gone)
}

// silent is a server that does not answer.
type silent struct{ redis.Hook }

func (silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (silent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-ctx.Done()
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
}

func (silent) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		<-ctx.Done()
		for _, cmd := range cmds {
			cmd.SetErr(ctx.Err())
		}
		return ctx.Err()
	}
}

// If the server does not answer, a caller fails within twice the timeout, whatever the number of
// callers ahead of it.
func TestCallersOfASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Second
		rdb := redis.NewClient(&redis.Options{Addr: ":1", PoolSize: 2}) // one call at a time
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(silent{})
		s := New(rdb, timeout, nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 5 * MaxBatch {
			all.Go(func() {
				if err := s.Do(t.Context(), "GET", "k").Err(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, coalesce.ErrLate) {
					t.Errorf("command to a silent server: got error %v, want a timeout", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 2*timeout {
			t.Errorf("callers of a silent server: got the last error after %v, want it after at most %v", took, 2*timeout)
		}
	})
}
