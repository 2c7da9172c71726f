package compare

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/loadtest/servers/wire"
)

// A way leads to the server. It counts the requests that pass, and each of them
// takes the latency longer, half on the way there and half on the way back.
type way struct {
	*wire.Wire
	redis    *redis.Client // straight to the server
	latency  time.Duration
	requests atomic.Int64 // commands that clients have sent, not those within scripts
}

// eachLatency runs a benchmark beside a private redis-server and a millisecond away from it.
func eachLatency(b *testing.B, run func(b *testing.B, w *way)) {
	addr := servertest.OpenRedis(b, servers.KindReal).Real.Addr()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() { _ = rdb.Close() })
	// Nothing is written to disk: the benchmarks compare the way, not the store.
	check.Must(b, rdb.ConfigSet(b.Context(), "appendonly", "no").Err())
	for _, latency := range []time.Duration{0, time.Millisecond} {
		b.Run(fmt.Sprintf("latency=%v", latency), func(b *testing.B) {
			w := &way{Wire: servertest.OpenWire(b, addr), redis: rdb, latency: latency}
			if latency > 0 {
				go exactTimers(b.Context())
			}
			w.Delay(wire.Both, latency/2, 0)
			w.Watch(func() func([]byte) {
				var count counter
				return func(sent []byte) { w.requests.Add(count.of(sent)) }
			})
			run(b, w)
		})
	}
}

// share has callers do b.N steps between them. An error of one ends the benchmark.
func share(b *testing.B, callers int, step func(caller, n int) error) {
	var all sync.WaitGroup
	var steps atomic.Int64
	for caller := range callers {
		all.Go(func() {
			for n := int(steps.Add(1)); n <= b.N && !b.Failed(); n = int(steps.Add(1)) {
				if err := step(caller, n); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// exactTimers keeps timers exact until ctx ends. It does nothing on systems whose timers
// are exact anyway.
var exactTimers = func(context.Context) {}

// A counter counts the commands of one connection: the lines that begin with a star. No
// argument of these clients begins a line with one. Its value is the last byte seen.
type counter byte

func (c *counter) of(sent []byte) (commands int64) {
	for _, b := range sent {
		if b == '*' && (*c == 0 || *c == '\n') {
			commands++
		}
		*c = counter(b)
	}
	return commands
}

// Commands are counted however they are cut into pieces.
func TestCounter(t *testing.T) {
	stream := []byte("*2\r\n$3\r\nGET\r\n$4\r\nkey*\r\n*1\r\n$4\r\nPING\r\n")
	for size := 1; size <= len(stream); size++ {
		var c counter
		n := int64(0)
		for rest := stream; len(rest) > 0; {
			piece := rest[:min(size, len(rest))]
			n += c.of(piece)
			rest = rest[len(piece):]
		}
		if n != 2 {
			t.Errorf("pieces of %d: %d commands, want 2", size, n)
		}
	}
}
