package onredis

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

// A program's own client is known by what it has in it; of what is not known the
// log tells.
func TestClientsOfAProgram(t *testing.T) {
	one, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{":1"}})
	defer func() { _, _ = one.Close(), cluster.Close() }()
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		reach  string
		warns  bool
	}{
		{"one server", one, "1", false},
		{"one server, embedded", struct{ *redis.Client }{one}, "1", false},
		{"cluster", cluster, "0", false},
		{"cluster, embedded", struct{ *redis.ClusterClient }{cluster}, "0", false},
		{"hidden", struct{ redis.UniversalClient }{one}, "0", true},
	} {
		var log strings.Builder
		s := New(c.client, lease.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if s.Reach != c.reach || strings.Contains(log.String(), "unknown kind") != c.warns {
			t.Errorf("%s: reach %s, log %q", c.name, s.Reach, &log)
		}
	}
}

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
	s := New(cluster, lease.Config{Lease: time.Hour, Timeout: time.Minute})
	errs := make([]error, callers)
	for i := range errs {
		all.Go(func() { _, errs[i] = s.Asking.Eval(t.Context(), s.Scripts.Renew, []string{"k"}) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("somebody waits for others")
	}
}
