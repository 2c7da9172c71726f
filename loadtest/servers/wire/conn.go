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

// connect carries one connection until either side ends it.
func (w *Wire) connect(client net.Conn) {
	defer w.disown(client)
	w.mu.Lock()
	target, ended, see := w.target, w.ended, func([]byte) {}
	if w.watch != nil {
		see = w.watch()
	}
	w.mu.Unlock()
	if !w.own(client, ended) {
		return
	}
	server, err := Dial(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer w.disown(server)
	if !w.own(server, ended) {
		return
	}
	l := &link{Wire: w, server: server, see: see}
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		defer func() { _ = client.Close() }()
		w.carry(client, server, Answers, l.answered)
		if l.silent.Load() {
			_, _ = io.Copy(io.Discard, client) // not even the server's end of the connection comes through
		}
	})
	w.carry(server, client, Requests, l.sent)
	if !l.silent.Load() { // or the server does not learn that the client has gone
		_ = server.Close()
	}
}

// A link is the state of one connection through the wire.
type link struct {
	*Wire
	server  net.Conn
	see     func(sent []byte)
	silent  atomic.Bool           // nothing comes through any more, and both ends stay open
	loses   atomic.Pointer[fault] // what takes the answers from here on
	counted bool                  // that it has taken one
	passed  atomic.Pointer[Catch] // whose answer is to come
}

// sent is what becomes of a piece that the client sends.
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

// answered is what becomes of a piece that the server says.
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

// carry hands every piece that arrives to look, and passes on what look returns
// when it is due. It ends with either connection or where look says so.
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
				_ = from.Close() // which ends the reading below
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
