package inventory

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// hooked is a client to the same Redis, with do around its single commands.
func hooked(t testing.TB, rdb *redis.Client, do func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
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
			return next(ctx, cmd) // a new connection's first words
		}
		return h(ctx, cmd, next)
	}
}

// counted is a client that counts its commands.
func counted(t testing.TB, rdb *redis.Client) (*redis.Client, *atomic.Int64) {
	n := new(atomic.Int64)
	return hooked(t, rdb, func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		n.Add(1)
		return next(ctx, cmd)
	}), n
}

// A wire is a TCP connection to Redis that can lose things.
type wire struct {
	addr     string
	loseNext atomic.Bool // the next reply, and the connection with it
	silent   atomic.Bool // nothing comes back any more
	lost     atomic.Int64
}

// newWire listens until the test ends.
func newWire(t testing.TB, rdb *redis.Client) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", rdb.Options().Addr)
			if err != nil {
				_ = client.Close()
				return
			}
			open.Go(func() { w.carry(server, client, false) })
			open.Go(func() { w.carry(client, server, true) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Wait() // the test's clients are closed by now
	})
	return w
}

// carry copies from one side to the other until either is closed.
func (w *wire) carry(from, to net.Conn, request bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !request {
			if w.loseNext.CompareAndSwap(true, false) {
				w.lost.Add(1)
				return
			}
			if w.silent.Load() {
				w.lost.Add(1)
				continue
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// client connects through the wire.
func (w *wire) client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
