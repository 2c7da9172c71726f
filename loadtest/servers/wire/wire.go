// Package wire is the network between a client and a server, for tests and
// drills: a TCP proxy that cuts, freezes, delays, holds and loses.
//
// The proxy reads bytes as they are. Redis and MySQL both send commands and
// their arguments in the open, so a match is a search in the bytes of one read.
// See Contains. A COMMIT to MySQL is "\x03COMMIT": the plain word is also in
// READ COMMITTED.
package wire

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A Wire is one proxy. It is safe for concurrent use.
type Wire struct {
	addr   string
	close  func() error // stops accepting connections
	target string
	loops  sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	ended   int // how often all connections were ended
	closed  bool
	down    bool
	frozen  chan struct{}   // closed by Thaw; nil while nothing is frozen
	delays  [Both + 1]delay // by direction, Requests and Answers
	loses   Direction       // nothing comes through in it
	faults  []*fault
	catches []*Catch
	watch   func() func(sent []byte)
}

// A Direction of the traffic.
type Direction int

// Requests go to the server, answers to the client.
const (
	Requests Direction = 1 << iota
	Answers
	Both = Requests | Answers
)

// A delay is about how long a piece takes.
type delay struct{ least, jitter time.Duration }

// Contains matches what has all of the parts in it.
func Contains(parts ...string) func(sent []byte) bool {
	return func(sent []byte) bool {
		for _, part := range parts {
			if !bytes.Contains(sent, []byte(part)) {
				return false
			}
		}
		return true
	}
}

// Open starts a proxy before the server at target. The proxy listens on a free port of the
// loopback interface, or in the in-memory network if target does, see Serve.
func Open(target string) (*Wire, error) {
	w := &Wire{target: target, conns: map[net.Conn]bool{}}
	if InMemory(target) {
		addr, stop := Serve(func() (net.Conn, error) {
			client, ours := net.Pipe()
			w.loops.Go(func() { w.connect(ours) })
			return client, nil
		})
		w.addr, w.close = addr, func() error { stop(); return nil }
		return w, nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire to %s: %w", target, err)
	}
	w.addr, w.close = listener.Addr().String(), listener.Close
	w.loops.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			w.loops.Go(func() { w.connect(client) })
		}
	})
	return w, nil
}

// loopback is an address in a URL or a DSN.
var loopback = regexp.MustCompile(`(127\.0\.0\.1|192\.0\.2\.1):\d+`)

// Before opens a wire before the server on loopback that a URL or a DSN names. It
// returns the URL or DSN by way of the wire.
func Before(url string) (via string, w *Wire, err error) {
	addr := loopback.FindString(url)
	if addr == "" {
		return "", nil, fmt.Errorf("wire: %q has no address of loopback", url)
	}
	if w, err = Open(addr); err != nil {
		return "", nil, err
	}
	return strings.Replace(url, addr, w.Addr(), 1), w, nil
}

// Addr is the client's address for the server.
func (w *Wire) Addr() string { return w.addr }

// Close ends the proxy and everything that it holds, and waits for its loops.
func (w *Wire) Close() error {
	err := w.close()
	w.mu.Lock()
	w.closed = true
	catches := w.catches
	w.mu.Unlock()
	w.Cut()
	w.Thaw()
	for _, c := range catches {
		c.Drop()
	}
	w.loops.Wait()
	return err
}

// Watch calls watch for each new connection, and the function that it returns for
// each piece that the client sends.
func (w *Wire) Watch(watch func() (see func(sent []byte))) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = watch
}

// Cut ends every connection and refuses new ones until Restore. What a Catch
// holds is still delivered when it passes.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	w.disconnect()
}

// disconnect ends every connection. Callers hold mu.
func (w *Wire) disconnect() {
	w.ended++
	for c := range w.conns {
		_ = c.Close()
	}
}

// Restore lets new connections through again.
func (w *Wire) Restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = w.closed
}

// Lead ends every connection; new ones go to another server, also after a Cut.
func (w *Wire) Lead(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnect()
	w.target, w.down = target, w.closed
}

// Freeze stops the traffic of all connections, new ones too, without closing
// any, until Thaw: a network that drops every packet.
func (w *Wire) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen == nil && !w.closed {
		w.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze. What was sent meanwhile arrives.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// Delay passes each piece on d later, give or take the jitter; 0 ends it. Pieces
// of one connection stay in order, and do not wait for each other's delay.
func (w *Wire) Delay(which Direction, d, jitter time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range []Direction{Requests, Answers} {
		if which&one != 0 {
			w.delays[one] = delay{max(0, d-jitter), 2 * jitter}
		}
	}
}

// Lose lets nothing through in one direction until mend is called, and closes
// nothing. Mend ends every connection: some have lost something.
func (w *Wire) Lose(which Direction) (mend func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loses |= which
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.loses &^= which
		w.disconnect()
	}
}

// passing waits until a piece may go on. It returns when the piece is due at the
// other side, and whether it gets there at all.
func (w *Wire) passing(which Direction) (due time.Time, lost bool) {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.delays[which]
	return time.Now().Add(d.least + rand.N(d.jitter+1)), w.loses&which != 0
}

// own notes a connection; false while the network is cut, and if connections were
// ended since it began.
func (w *Wire) own(c net.Conn, ended int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.ended != ended {
		return false
	}
	w.conns[c] = true
	return true
}

func (w *Wire) disown(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}
