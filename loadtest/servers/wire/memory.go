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

// memory is the network inside this process: its servers by address.
var memory struct {
	servers sync.Map // address → func() (net.Conn, error)
	last    atomic.Int64
}

// inMemory is the host of all addresses of the network inside this process: one for
// documentation, which no machine has. A name would be looked up.
const inMemory = "192.0.2.1:"

// Serve gives a server an address in the network inside this process, which has no
// sockets: it can be used in a bubble of testing/synctest. A Wire before such an
// address has one as well.
func Serve(connect func() (net.Conn, error)) (addr string, stop func()) {
	addr = fmt.Sprint(inMemory, memory.last.Add(1))
	memory.servers.Store(addr, connect)
	return addr, func() { memory.servers.Delete(addr) }
}

// InMemory reports whether an address is one that Serve has given.
func InMemory(addr string) bool { return strings.HasPrefix(addr, inMemory) }

// Dial connects to an address, by TCP or in the network inside this process.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !InMemory(addr) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	connect, found := memory.servers.Load(addr)
	if !found {
		return nil, fmt.Errorf("wire: no server at %s", addr)
	}
	conn, err := connect.(func() (net.Conn, error))()
	if err != nil {
		return nil, err
	}
	return newPipe(conn), nil
}

// A pipe is one end of a connection. Like TCP, and unlike a net.Pipe, it takes what is
// written before the other end reads it.
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

// SetDeadline fails for no connection by TCP whose other end is closed: reading does.
func (p *pipe) SetDeadline(at time.Time) error {
	_ = p.SetReadDeadline(at)
	return nil
}

func (p *pipe) SetReadDeadline(at time.Time) error {
	_ = p.Conn.SetReadDeadline(at)
	return nil
}

func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
