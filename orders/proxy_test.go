package orders

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"flashsale/loadtest/servers"
)

// A proxy is the network between a node and one of its stores.
type proxy struct {
	addr   string
	target string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool

	// swallow, where set, is what a client must say for the answer to it to
	// get lost, once: the server does it, and then the connection is cut.
	swallow   atomic.Pointer[[]byte]
	swallowed atomic.Int64
}

// between puts a proxy before target, for the rest of the test.
func between(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		serving.Wait()
	})
	return p
}

// redisVia returns the stores with a proxy before Redis.
func redisVia(t testing.TB, s *servers.Stores) (*servers.Stores, *proxy) {
	t.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(s.RedisURL, "redis://"), "/0")
	p := between(t, addr)
	via := *s
	via.RedisURL = "redis://" + p.addr + "/0"
	return &via, p
}

// cut ends all connections and lets no new one through, until restored.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// hold notes a connection; false while the network is down.
func (p *proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.down {
		p.conns[c] = true
	}
	return !p.down
}

func (p *proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) serve(client net.Conn) {
	defer p.drop(client)
	if !p.hold(client) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.hold(server) {
		return
	}
	var mute atomic.Bool
	done := make(chan struct{})
	go func() { // what the server says
		defer close(done)
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || mute.Load() {
				return // it has answered, so it has been done
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	_, _ = io.Copy(server, &listening{Reader: client, proxy: p, mute: &mute})
	_ = server.Close()
	<-done
}

// listening reads what a client says, and mutes the server's answer to what
// is to be swallowed.
type listening struct {
	io.Reader
	proxy *proxy
	mute  *atomic.Bool
}

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if what := l.proxy.swallow.Load(); what != nil && bytes.Contains(b[:n], *what) && l.proxy.swallow.CompareAndSwap(what, nil) {
		l.mute.Store(true)
		l.proxy.swallowed.Add(1)
	}
	return n, err
}
