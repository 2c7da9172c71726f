package wire

import (
	"context"
	"errors"
	"net"
)

// A Catch holds back what clients send from a match on. The client may close
// its connection meanwhile: what is held is still delivered by Pass, as TCP
// delivers what a closed socket has sent.
type Catch struct {
	match  func(sent []byte) bool
	all    bool
	done   bool            // takes no more; the wire's lock guards it
	caught context.Context // ends once something is held
	hit    context.CancelFunc
	held   context.Context // ends by Pass or Drop, whichever comes first
	end    context.CancelCauseFunc
	answer chan string
}

var errPass = errors.New("wire: what was held goes on")

// Hold holds back the first piece that matches.
func (w *Wire) Hold(match func(sent []byte) bool) *Catch { return w.arm(match, false) }

// HoldAll holds back every piece that matches, until Pass or Drop.
func (w *Wire) HoldAll(match func(sent []byte) bool) *Catch { return w.arm(match, true) }

func (w *Wire) arm(match func(sent []byte) bool, all bool) *Catch {
	c := &Catch{match: match, all: all, answer: make(chan string, 1)}
	c.caught, c.hit = context.WithCancel(context.Background())
	c.held, c.end = context.WithCancelCause(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catches = append(w.catches, c)
	return c
}

// Caught is closed once something is held.
func (c *Catch) Caught() <-chan struct{} { return c.caught.Done() }

// Answer is the first that the server says after Pass. HoldAll has none.
func (c *Catch) Answer() <-chan string { return c.answer }

// Pass delivers what is held, late, and holds nothing more.
func (c *Catch) Pass() { c.end(errPass) }

// Drop breaks the connections of what is held, and holds nothing more.
func (c *Catch) Drop() { c.end(nil) }

// catch returns the Catch that holds the piece back, or nil.
func (w *Wire) catch(sent []byte) *Catch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.catches {
		if c.held.Err() == nil && !c.done && c.match(sent) {
			c.done = !c.all
			c.hit()
			return c
		}
	}
	return nil
}

// hold waits until the piece may pass. The server's side of the connection is
// kept open meanwhile, whatever becomes of the client's.
func (c *Catch) hold(w *Wire, server net.Conn) (passes bool) {
	w.mu.Lock()
	delete(w.conns, server)
	w.mu.Unlock()
	<-c.held.Done()
	if passes = errors.Is(context.Cause(c.held), errPass); passes {
		w.mu.Lock()
		w.conns[server] = true
		w.mu.Unlock()
	}
	return passes
}
