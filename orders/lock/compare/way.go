package main

import (
	"context"
	"sync/atomic"
	"time"

	"flashsale/loadtest/servers/wire"
)

// A way leads to the server. It counts the requests that pass, and each of them
// takes the latency longer, half on the way there and half on the way back.
type way struct {
	*wire.Wire
	end      context.CancelFunc
	requests atomic.Int64 // commands that clients have sent, not those within scripts
}

func openWay(upstream string, latency time.Duration) (*way, error) {
	through, err := wire.Open(upstream)
	if err != nil {
		return nil, err
	}
	timing, end := context.WithCancel(context.Background())
	if latency > 0 {
		go exactTimers(timing)
	}
	w := &way{Wire: through, end: end}
	w.Delay(wire.Both, latency/2, 0)
	w.Watch(func() func([]byte) {
		var count counter
		return func(sent []byte) { w.requests.Add(count.of(sent)) }
	})
	return w, nil
}

// Close ends it with all its connections.
func (w *way) Close() error {
	w.end()
	return w.Wire.Close()
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
