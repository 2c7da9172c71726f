package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connect carries the traffic of one connection until either side closes it.
func (w *Wire) connect(client net.Conn) {
	defer w.remove(client)
	w.mu.Lock()
	target, ended, see := w.target, w.ended, func([]byte) {}
	if w.watch != nil {
		see = w.watch()
	}
	w.mu.Unlock()
	if !w.add(client, ended) {
		return
	}
	server, err := Dial(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer w.remove(server)
	if !w.add(server, ended) {
		return
	}
	l := &link{Wire: w, server: server, see: see}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		defer func() { _ = client.Close() }()
		w.carry(client, server, Answers, l.answered)
		if l.silent.Load() {
			_, _ = io.Copy(io.Discard, client) // the client must not see that the server closes its end
		}
	})
	w.carry(server, client, Requests, l.sent)
	if !l.silent.Load() { // otherwise the server would not see that the client has closed its end
		_ = server.Close()
	}
}

// A link is the state of one connection through the wire.
type link struct {
	*Wire
	server  net.Conn
	see     func(sent []byte)
	silent  atomic.Bool           // nothing is delivered any more, and both ends stay open
	loses   atomic.Pointer[fault] // fault that drops all further answers; nil if answers are delivered
	counted bool                  // the first lost answer of this connection has been counted for the fault in loses
	passed  atomic.Pointer[Catch] // Catch that waits for the next answer
}

// sent returns the bytes to deliver to the server for a piece from the client. If more
// is false, the connection ends.
func (l *link) sent(piece []byte) (pass []byte, more bool) {
	l.see(piece)
	if f := l.hit(piece); f != nil && f.silent {
		l.silent.Store(true)
	} else if f != nil {
		l.loses.Store(f)
	}
	if l.silent.Load() {
		return nil, true
	}
	c := l.catch(piece)
	if c == nil {
		return piece, true
	}
	passes := c.hold(l.Wire, l.server)
	if passes && !c.all {
		l.passed.Store(c)
	}
	return piece, passes
}

// answered returns the bytes to deliver to the client for a piece from the server. If
// more is false, the connection ends.
func (l *link) answered(piece []byte) (pass []byte, more bool) {
	if l.silent.Load() {
		return nil, true
	}
	if c := l.passed.Swap(nil); c != nil {
		c.answer <- string(piece)
	}
	f := l.loses.Load()
	if f == nil {
		return piece, true
	}
	if !l.counted {
		l.counted = true
		l.count(f)
	}
	return nil, f.open
}

// carry passes each piece that arrives to look and delivers the result when it is due.
// It returns when a connection ends or more is false.
func (w *Wire) carry(to, from net.Conn, which Direction, look func(piece []byte) (pass []byte, more bool)) {
	type late struct {
		due   time.Time
		bytes []byte
	}
	queue := make(chan late, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close() // ends the read loop
			}
		}
	})
	defer writer.Wait()
	defer close(queue)
	piece := make([]byte, 1<<17)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			due, lost := w.passing(which)
			pass, more := look(piece[:n])
			if !more {
				return
			}
			if !lost && len(pass) > 0 {
				queue <- late{due, bytes.Clone(pass)}
			}
		}
		if err != nil {
			return
		}
	}
}
