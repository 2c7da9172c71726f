package main

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"

	"flashsale/loadtest/servers/wire"
)

// A way leads to the server. It counts the requests that pass, and each of them
// takes the latency longer, half on the way there and half on the way back.
type way struct {
	*wire.Wire
	requests atomic.Int64 // commands that clients have sent, not those within scripts
}

func openWay(upstream string, latency time.Duration) (*way, error) {
	through, err := wire.Open(upstream)
	if err != nil {
		return nil, err
	}
	w := &way{Wire: through}
	w.Delay(wire.Both, latency/2, 0)
	w.Watch(func() func([]byte) {
		var count counter
		return func(sent []byte) { w.requests.Add(count.of(sent)) }
	})
	return w, nil
}

// A counter counts the commands of one connection: arrays of strings that have
// their lengths before them.
type counter struct {
	line []byte // of a header that has not ended yet
	args int    // still to come of this command
	skip int    // bytes still to come of this argument
}

func (c *counter) of(b []byte) (commands int64) {
	for len(b) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(b))
			c.skip -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			c.line = append(c.line, b...)
			return commands
		}
		line := append(c.line, b[:end]...)
		b = b[end+1:]
		n, _ := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r")))
		if line[0] == '*' {
			commands++
			c.args = n
		} else {
			c.args--
			c.skip = n + 2
		}
		c.line = c.line[:0]
	}
	return commands
}
