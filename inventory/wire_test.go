package inventory

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/wire"
)

// hooked returns a client of the same Redis that calls do for each single command.
func hooked(t testing.TB, rdb *redis.Client, do func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error) *redis.Client {
	t.Helper()
	client := servertest.Connect(t, rdb.Options().Addr)
	client.AddHook(hook(do))
	return client
}

type hook func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "hello" || name == "client" || name == "auth" {
			return next(ctx, cmd) // commands with which a connection begins
		}
		return h(ctx, cmd, next)
	}
}

// counted returns a client that counts its commands.
func counted(t testing.TB, rdb *redis.Client) (*redis.Client, *atomic.Int64) {
	n := new(atomic.Int64)
	return hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		n.Add(1)
		return next(ctx, cmd)
	}), n
}

// wired returns a client that reaches the same Redis through a wire.
func wired(t testing.TB, rdb *redis.Client) (*redis.Client, *wire.Wire) {
	t.Helper()
	w := servertest.OpenWire(t, rdb.Options().Addr)
	return servertest.Connect(t, w.Addr()), w
}
