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

// A way is the connection to the server. It counts the requests and adds the latency to each of
// them, half in each direction.
type way struct {
	*wire.Wire
	redis    *redis.Client // connection without the wire
	latency  time.Duration
	requests atomic.Int64 // commands from clients; commands within scripts do not count
}

// eachLatency runs a benchmark on a private redis-server with latencies of 0 and 1 ms.
func eachLatency(b *testing.B, run func(b *testing.B, w *way)) {
	addr := servertest.OpenRedis(b, servers.KindReal).Real.Addr()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() { _ = rdb.Close() })
	// The benchmarks compare round trips, so Redis writes nothing to disk.
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

// share distributes b.N steps among concurrent callers. An error ends the benchmark.
func share(b *testing.B, callers int, step func(caller, n int) error) {
	var all sync.WaitGroup
	var steps atomic.Int64
	for caller := range callers {
		all.Go(func() {
			for n := int(steps.Add(1)); n <= b.N && !b.Failed(); n = int(steps.Add(1)) {
				if err := step(caller, n); err != nil {
					b.Errorf("step of the benchmark: got error %v, want none", err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// exactTimers keeps the timers of the process exact until ctx ends. Only Linux needs it.
var exactTimers = func(context.Context) {}

// A counter counts the commands on one connection: the lines that begin with a star. No argument
// of a command contains a line that begins with a star. The counter's value is the last byte.
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

// The counter counts commands that arrive in pieces of any size.
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
			t.Errorf("command counter, pieces of %d bytes: got %d commands, want 2", size, n)
		}
	}
}
