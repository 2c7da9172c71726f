package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A way leads to the server. It counts the requests that pass, and each of them
// takes the latency longer, half on the way there and half on the way back.
type way struct {
	addr     string
	requests atomic.Int64 // commands that clients have sent, not those within scripts

	upstream string
	half     time.Duration
	listener net.Listener
	all      sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func openWay(ctx context.Context, upstream string, latency time.Duration) (*way, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &way{addr: listener.Addr().String(), upstream: upstream, half: latency / 2, listener: listener}
	w.all.Go(func() { w.accept(ctx) })
	return w, nil
}

func (w *way) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.mu.Unlock()
	w.all.Wait()
}

func (w *way) accept(ctx context.Context) {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", w.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		var count counter
		w.all.Go(func() { w.pass(client, server, func(b []byte) { w.requests.Add(count.of(b)) }) })
		w.all.Go(func() { w.pass(server, client, nil) })
	}
}

// pass passes on what comes, in order, each piece after the latency.
func (w *way) pass(from, to net.Conn, seen func([]byte)) {
	defer from.Close()
	defer to.Close()
	if w.half == 0 {
		_, _ = io.Copy(to, io.TeeReader(from, sink(seen)))
		return
	}
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1024)
	w.all.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.bytes)
		}
	})
	defer close(pieces)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if seen != nil {
			seen(buf[:n])
		}
		pieces <- piece{time.Now().Add(w.half), bytes.Clone(buf[:n])}
	}
}

type sink func([]byte)

func (s sink) Write(b []byte) (int, error) {
	if s != nil {
		s(b)
	}
	return len(b), nil
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
