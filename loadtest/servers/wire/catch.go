package wire

import (
	"context"
	"errors"
	"net"
)

// A Catch holds back the data of a connection from a matching piece on. If the client
// closes the connection, Pass still delivers the data, as TCP delivers the data of a
// closed socket.
type Catch struct {
	match  func(sent []byte) bool
	all    bool
	done   bool            // the Catch takes no further pieces; guarded by the wire's mu
	caught context.Context // ends once a piece is held
	hit    context.CancelFunc
	held   context.Context // ends at Pass or Drop
	end    context.CancelCauseFunc
	answer chan string
}

var errPass = errors.New("wire: the held data was already passed on")

// Hold holds back the first piece that matches.
func (w *Wire) Hold(match func(sent []byte) bool) *Catch { return w.arm(match, false) }

// HoldAll holds back each piece that matches, until Pass or Drop.
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

// Caught returns a channel that is closed once a piece is held.
func (c *Catch) Caught() <-chan struct{} { return c.caught.Done() }

// Answer returns a channel with the first answer of the server after Pass. It receives
// nothing for HoldAll.
func (c *Catch) Answer() <-chan string { return c.answer }

// Pass delivers the held data. The Catch then holds nothing more.
func (c *Catch) Pass() { c.end(errPass) }

// Drop closes the connections of the held data. The Catch then holds nothing more.
func (c *Catch) Drop() { c.end(nil) }

// catch returns the Catch for this piece, or nil.
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

// hold waits until Pass or Drop. The connection to the server stays open until then,
// even if the client's is closed.
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
