package drill

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// onWire opens a wire to a server that answers each line with itself, with so
// many connections on it.
func onWire(t *testing.T, n int) (w *wire, heard chan string, conns []net.Conn) {
	t.Helper()
	heard = make(chan string, 10)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard <- lines.Text()
					_, _ = fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	if w, err = openWire(server.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	for range n {
		conn, err := net.Dial("tcp", w.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		conns = append(conns, conn)
	}
	return w, heard, conns
}

type answer struct {
	line string
	err  error
}

// asks sends a line, and reads the answer beside what the test does meanwhile.
func asks(conn net.Conn, line string) chan answer {
	c := make(chan answer, 1)
	go func() {
		_, err := fmt.Fprintln(conn, line)
		if err == nil {
			line, err = bufio.NewReader(conn).ReadString('\n')
		}
		c <- answer{line, err}
	}()
	return c
}

// The first piece that matches is held, and other connections go on. Once let
// pass it arrives, and its answer is known.
func TestWireHoldsOne(t *testing.T) {
	w, heard, conns := onWire(t, 2)
	c := w.hold(func(sent string) bool { return strings.Contains(sent, "fence 1") })
	late := asks(conns[0], "fence 1")
	<-c.caught
	if got := <-asks(conns[1], "fence 1 again"); got.line != "fence 1 again\n" {
		t.Errorf("beside it: %+v", got)
	}
	if first := <-heard; first != "fence 1 again" {
		t.Errorf("what was held arrived: %q", first)
	}
	c.pass()
	if got := <-late; got.line != "fence 1\n" {
		t.Errorf("held: %+v", got)
	}
	if got := <-c.answer; got != "fence 1\n" {
		t.Errorf("its answer: %q", got)
	}
}

// What is dropped never arrives, however much of it there is; nor does what is
// still held when the wire is closed.
func TestWireDrops(t *testing.T) {
	w, heard, conns := onWire(t, 3)
	c := w.holdAll(func(sent string) bool { return strings.Contains(sent, "renew") })
	one, two := asks(conns[0], "renew 1"), asks(conns[1], "renew 2")
	<-c.caught
	c.drop()
	for _, gone := range []chan answer{one, two} {
		if got := <-gone; got.err == nil {
			t.Errorf("dropped, and answered: %+v", got)
		}
	}
	d := w.hold(func(sent string) bool { return strings.Contains(sent, "store") })
	three := asks(conns[2], "store")
	<-d.caught
	w.close()
	if got := <-three; got.err == nil {
		t.Errorf("closed, and answered: %+v", got)
	}
	if len(heard) > 0 {
		t.Errorf("%q arrived", <-heard)
	}
}
