// Package wire contains a TCP proxy for tests and drills. The proxy can cut, freeze,
// delay, hold back and lose the traffic between a client and a server.
//
// Redis and MySQL send commands and arguments as plain text, so a match is a search in
// the bytes of one read (see Contains). To match a COMMIT to MySQL, search for
// "\x03COMMIT", because READ COMMITTED contains the plain word.
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
	ended   int // number of times that all connections were closed
	closed  bool
	down    bool
	frozen  chan struct{}   // nil if the traffic is not frozen; closed by Thaw
	delays  [Both + 1]delay // index: Requests or Answers
	loses   Direction       // directions in which nothing is delivered
	faults  []*fault
	catches []*Catch
	watch   func() func(sent []byte)
}

// A Direction is a direction of the traffic.
type Direction int

// Requests go to the server, and answers to the client.
const (
	Requests Direction = 1 << iota
	Answers
	Both = Requests | Answers
)

// A delay is the time that a piece takes, between least and least + jitter.
type delay struct{ least, jitter time.Duration }

// Contains returns a function that matches a piece if it contains all parts.
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
		return nil, fmt.Errorf("wire: listen for %s: %w", target, err)
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

// loopback matches an address in a URL or a DSN.
var loopback = regexp.MustCompile(`(127\.0\.0\.1|192\.0\.2\.1):\d+`)

// OpenForURL starts a proxy before the server on loopback that a URL or a DSN names. It
// returns the URL or DSN with the address of the proxy.
func OpenForURL(url string) (via string, w *Wire, err error) {
	addr := loopback.FindString(url)
	if addr == "" {
		return "", nil, fmt.Errorf("wire: %q contains no loopback address", url)
	}
	if w, err = Open(addr); err != nil {
		return "", nil, err
	}
	return strings.Replace(url, addr, w.Addr(), 1), w, nil
}

// Addr returns the address that clients use instead of the server's.
func (w *Wire) Addr() string { return w.addr }

// Close closes all connections, drops held data, and waits for the loops of the proxy.
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

// Watch sets a function that is called for each new connection. The function that it
// returns is called for each piece that the client sends.
func (w *Wire) Watch(watch func() (see func(sent []byte))) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = watch
}

// Cut closes all connections and refuses new ones until Restore. A Catch still delivers
// its data at Pass.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	w.disconnect()
}

// disconnect closes all connections. The caller holds mu.
func (w *Wire) disconnect() {
	w.ended++
	for c := range w.conns {
		_ = c.Close()
	}
}

// Restore accepts new connections again after Cut.
func (w *Wire) Restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = w.closed
}

// Redirect closes all connections and sends new ones to another server. It also ends a Cut.
func (w *Wire) Redirect(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disconnect()
	w.target, w.down = target, w.closed
}

// Freeze stops all traffic until Thaw, without closing connections. New connections are
// frozen as well.
func (w *Wire) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen == nil && !w.closed {
		w.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze and delivers the traffic that has been waiting.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// Delay delays each piece by d ± jitter. A d of 0 ends the delay. The pieces of a
// connection stay in order, and their delays overlap.
func (w *Wire) Delay(which Direction, d, jitter time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range []Direction{Requests, Answers} {
		if which&one != 0 {
			w.delays[one] = delay{max(0, d-jitter), 2 * jitter}
		}
	}
}

// DropTraffic drops all traffic in one direction until mend is called, without closing
// connections. Mend closes all connections, because some have lost data.
func (w *Wire) DropTraffic(which Direction) (mend func()) {
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

// passing waits while the traffic is frozen. It returns when the piece is due at the
// other side, and whether it is lost.
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

// add registers c. It returns false if the wire is cut, or if all connections have been closed
// since the caller read ended.
func (w *Wire) add(c net.Conn, ended int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.ended != ended {
		return false
	}
	w.conns[c] = true
	return true
}

func (w *Wire) remove(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}
