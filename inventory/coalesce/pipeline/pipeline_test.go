package pipeline

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// together holds up commands until so many are there, each sent by itself.
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
			cmd.SetErr(errors.New("waits for the nodes of others"))
		}
		return nil
	}
}

func (together) DialHook(next redis.DialHook) redis.DialHook { return next }

// In a cluster nobody waits for the node of somebody else's key.
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
	check.Receive(t, "all calls end", done)
	check.OK(t, errors.Join(errs...))
}

// demoted is a server that was a master: it reads, and does not write. A new connection
// leads to the master. The first command waits until the others are there.
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
			if cmd.Args()[0] == "write" {
				cmd.SetErr(readOnly{})
			}
		}
		return nil
	}
}

// A command that reads is no reason to stay with a master that was demoted: those
// that write are sent again. But not those that go-redis must send once.
func TestDemotedMaster(t *testing.T) {
	for _, once := range []bool{false, true} {
		rdb := redis.NewClient(&redis.Options{Addr: ":1", PoolSize: 2}) // one call under way at a time
		h := demoted{under: make(chan struct{}), free: make(chan struct{})}
		rdb.AddHook(h)
		s := New(rdb, time.Minute, nil)
		s.Once = once
		var all sync.WaitGroup
		errs := make([]error, 4)
		ask := func(i int, name string) { all.Go(func() { errs[i] = s.Do(t.Context(), name, "k").Err() }) }
		ask(0, "first")
		<-h.under
		for i, name := range []string{"read", "write", "write"} {
			ask(i+1, name)
			for s.Group.Len() != i+2 {
				runtime.Gosched()
			}
		}
		close(h.free)
		all.Wait()
		_ = rdb.Close()
		for i, err := range errs {
			if refused := once && i > 1; (err != nil) != refused {
				t.Errorf("once %v, command %d: %v", once, i, err)
			}
		}
	}
}

// Who has given up is not sent.
func TestGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	rdb := redis.NewClient(&redis.Options{Addr: ":1"})
	defer func() { _ = rdb.Close() }()
	check.Is(t, New(rdb, time.Minute, nil).Do(ctx, "PING").Err(), gone)
}
