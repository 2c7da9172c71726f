package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// memory contains the servers of the in-memory network by address.
var memory struct {
	servers sync.Map // address → func() (net.Conn, error)
	last    atomic.Int64
}

// inMemory is the host of all addresses in the in-memory network. It is an IP address
// reserved for documentation, so no machine has it, and clients do not resolve it.
const inMemory = "192.0.2.1:"

// Serve registers a server in the in-memory network and returns its address, which Dial
// connects to by calling connect. Call stop to remove the server. The network has no
// sockets, so it can be used in a bubble of testing/synctest. A Wire before a server of the
// in-memory network is in that network, too.
func Serve(connect func() (net.Conn, error)) (addr string, stop func()) {
	addr = fmt.Sprint(inMemory, memory.last.Add(1))
	memory.servers.Store(addr, connect)
	return addr, func() { memory.servers.Delete(addr) }
}

// InMemory reports whether addr is an address in the in-memory network.
func InMemory(addr string) bool { return strings.HasPrefix(addr, inMemory) }

// Dial connects to addr in the in-memory network, if addr is an address of Serve, and
// otherwise in the named network.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !InMemory(addr) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	connect, found := memory.servers.Load(addr)
	if !found {
		return nil, fmt.Errorf("wire: no server listens at %s", addr)
	}
	conn, err := connect.(func() (net.Conn, error))()
	if err != nil {
		return nil, err
	}
	return newPipe(conn), nil
}

// A pipe is one end of a connection. Writes are buffered, as in TCP and unlike in
// net.Pipe: they do not wait for the other end to read.
type pipe struct {
	net.Conn
	written chan []byte
	closed  chan struct{}
	close   func() error
}

func newPipe(conn net.Conn) *pipe {
	p := &pipe{Conn: conn, written: make(chan []byte, 1000), closed: make(chan struct{})}
	p.close = sync.OnceValue(func() error {
		close(p.closed)
		return conn.Close()
	})
	go func() {
		for {
			select {
			case b := <-p.written:
				if _, err := conn.Write(b); err != nil {
					_ = p.close()
					return
				}
			case <-p.closed:
				return
			}
		}
	}()
	return p
}

func (p *pipe) Write(b []byte) (int, error) {
	select {
	case <-p.closed:
		return 0, io.EOF
	default:
	}
	select {
	case p.written <- slices.Clone(b):
		return len(b), nil
	case <-p.closed:
		return 0, io.EOF
	}
}

func (p *pipe) Close() error { return p.close() }

// SetDeadline does not fail if the other end is closed. As with TCP, the next read does.
func (p *pipe) SetDeadline(at time.Time) error {
	_ = p.SetReadDeadline(at)
	return nil
}

func (p *pipe) SetReadDeadline(at time.Time) error {
	_ = p.Conn.SetReadDeadline(at)
	return nil
}

func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
