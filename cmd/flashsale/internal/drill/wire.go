package drill

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// A wire is the network between one node and one server. It can hold back what
// the node sends from a chosen statement or command on, for as long as the
// drill likes: what is on its way arrives, even if whoever sent it has been
// paused or replaced meanwhile. It reads the bytes as they are; both protocols
// have their arguments in the open.
type wire struct {
	listener net.Listener
	to       string
	loops    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]bool
	catches []*catch
}

func openWire(to string) (*wire, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire to %s: %w", to, err)
	}
	w := &wire{listener: listener, to: to, conns: map[net.Conn]bool{}}
	w.loops.Go(func() {
		for {
			node, err := listener.Accept()
			if err != nil {
				return
			}
			w.loops.Go(func() { w.connect(node) })
		}
	})
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.closed = true
	for c := range w.conns {
		_ = c.Close()
	}
	catches := w.catches
	w.mu.Unlock()
	for _, c := range catches {
		c.drop()
	}
	w.loops.Wait()
}

// own has a connection closed with the wire.
func (w *wire) own(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.conns[c] = true
	}
	return !w.closed
}

func (w *wire) disown(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	_ = c.Close()
}

// connect carries one connection until either side ends it.
func (w *wire) connect(node net.Conn) {
	defer w.disown(node)
	if !w.own(node) {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.to)
	if err != nil {
		return
	}
	defer w.disown(server)
	if !w.own(server) {
		return
	}
	var passed atomic.Pointer[catch] // whose answer is to come
	var back sync.WaitGroup
	defer back.Wait()
	defer func() { _ = server.Close() }()
	back.Go(func() {
		defer func() { _ = node.Close() }()
		copyEach(node, server, func(answer []byte) bool {
			if c := passed.Swap(nil); c != nil {
				c.answer <- string(answer)
			}
			return true
		})
	})
	copyEach(server, node, func(sent []byte) bool {
		c := w.catching(sent)
		if c == nil {
			return true
		}
		<-c.ended
		if c.passes && !c.all {
			passed.Store(c)
		}
		return c.passes
	})
}

// copyEach hands every piece that arrives to look, and on where look says so,
// and ends with either connection.
func copyEach(to, from net.Conn, look func(piece []byte) bool) {
	piece := make([]byte, 1<<17)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if !look(piece[:n]) {
				return
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// A catch holds back the first piece that matches, or all that do, and what
// their connections send after them.
type catch struct {
	match  func(sent string) bool
	all    bool
	done   bool          // takes no more; the wire's lock guards it
	caught chan struct{} // closed once something is held
	ended  chan struct{} // closed once it may pass, or is dropped
	passes bool          // set before
	answer chan string   // to the first piece that was let pass
	once   sync.Once
}

// hold arms the wire for the first piece that matches.
func (w *wire) hold(match func(sent string) bool) *catch { return w.arm(match, false) }

// holdAll arms it for every one.
func (w *wire) holdAll(match func(sent string) bool) *catch { return w.arm(match, true) }

func (w *wire) arm(match func(sent string) bool, all bool) *catch {
	c := &catch{match: match, all: all, caught: make(chan struct{}), ended: make(chan struct{}), answer: make(chan string, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catches = append(w.catches, c)
	return c
}

func (w *wire) catching(sent []byte) *catch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.catches {
		if c.done || !c.match(string(sent)) {
			continue
		}
		c.done = !c.all
		select {
		case <-c.caught:
		default:
			close(c.caught)
		}
		return c
	}
	return nil
}

// disarm has the catch take no more.
func (w *wire) disarm(c *catch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.done = true
}

// pass lets what was caught go on; drop breaks its connection instead.
func (c *catch) pass() { c.end(true) }
func (c *catch) drop() { c.end(false) }

func (c *catch) end(passes bool) {
	c.once.Do(func() {
		c.passes = passes
		close(c.ended)
	})
}
