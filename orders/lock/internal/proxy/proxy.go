// Package proxy stands before a server in tests and loses answers: the command
// arrives, is carried out, and its answer does not come back.
package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy passes everything on until it is told otherwise.
type Proxy struct {
	Addr     string
	upstream string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool // no connection comes through
	match  func(chunk []byte) bool
	left   int  // how many answers to what matches are still to be lost
	mute   bool // lost by silence, not by closing the connection
	lost   int
}

// New starts a proxy before the server at upstream, for the rest of the test.
func New(t testing.TB, upstream string) *Proxy {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), upstream: upstream, conns: make(map[net.Conn]bool)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.Cut(true); all.Wait() })
	return p
}

// Lose loses the answers to the next n commands that match, and to what follows
// on their connections; n below 0 is without end. mute keeps the connection open.
func (p *Proxy) Lose(n int, mute bool, match func(chunk []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.left, p.mute = match, n, mute
}

// Losses is how many answers have been lost.
func (p *Proxy) Losses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Cut breaks every connection, and refuses new ones while closed.
func (p *Proxy) Cut(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) untrack(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close()
}

func (p *Proxy) serve(client net.Conn) {
	if !p.track(client) {
		return
	}
	defer p.untrack(client)
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.upstream)
	if err != nil || !p.track(server) {
		return
	}
	defer p.untrack(server)

	var doomed atomic.Bool // the answers from here on are lost
	var up sync.WaitGroup
	up.Go(func() {
		defer server.Close()
		buf := make([]byte, 1<<20)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if p.marked(buf[:n]) {
				doomed.Store(true)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		if doomed.Load() {
			if p.swallow() {
				continue
			}
			break
		}
		if _, err := client.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = client.Close()
	up.Wait()
}

// marked reports whether the answer to what is sent is to be lost.
func (p *Proxy) marked(chunk []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 || !p.match(chunk) {
		return false
	}
	p.left--
	return true
}

// swallow loses an answer, in silence or else with its connection.
func (p *Proxy) swallow() (silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost++
	return p.mute
}
