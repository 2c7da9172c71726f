package link

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
)

// speaker starts a server that answers each line with its name and the line.
func speaker(t *testing.T, name string) (addr string, heard chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	heard = make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard <- lines.Text()
					_, _ = fmt.Fprintln(conn, name, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String(), heard
}

// ask sends a line on an open connection; no answer within most is an error.
func ask(conn net.Conn, line string, most time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(most))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// isSilence tells a time that ran out from a connection that broke.
func isSilence(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestLink(t *testing.T) {
	one, heard := speaker(t, "one")
	two, _ := speaker(t, "two")
	l, err := Open(one)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Cut()
	const most = 10 * time.Second

	conn := dial(t, l)
	if got, err := ask(conn, "hello", most); got != "one hello\n" {
		t.Fatalf("%q, %v", got, err)
	}
	<-heard

	mend, err := l.Delay(300, 0)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if got, err := ask(conn, "slowly", most); got != "one slowly\n" || time.Since(began) < 250*time.Millisecond {
		t.Errorf("delayed: %q, %v after %v", got, err, time.Since(began))
	}
	<-heard
	if err := mend(); err != nil {
		t.Fatal(err)
	}

	// What is asked arrives, what is answered does not; mending says so by
	// breaking the connection, for the answer never comes.
	if mend, err = l.Swallow(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(conn, "into the void", 300*time.Millisecond); err == nil {
		t.Errorf("answered %q", got)
	}
	if got := <-heard; got != "into the void" {
		t.Errorf("heard %q", got)
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(conn, "still there?", most); err == nil || isSilence(err) {
		t.Errorf("a connection that lost an answer goes on: %v", err)
	}

	// And the other way round: nothing arrives.
	conn = dial(t, l)
	if mend, err = l.Block(); err != nil {
		t.Fatal(err)
	}
	if got, err := ask(conn, "anybody?", 300*time.Millisecond); err == nil {
		t.Errorf("answered %q", got)
	}
	for quiet := false; !quiet; { // what was sent before on the other connection may have come late
		select {
		case got := <-heard:
			if got == "anybody?" {
				t.Errorf("heard %q through a block", got)
			}
		default:
			quiet = true
		}
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}

	conn = dial(t, l)
	if err := l.Lead(two); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(conn, "who?", most); err == nil || isSilence(err) {
		t.Errorf("a connection to the old server goes on: %v", err)
	}
	if got, err := ask(dial(t, l), "who?", most); got != "two who?\n" {
		t.Errorf("led to another: %q, %v", got, err)
	}
	conn = dial(t, l)
	l.Cut()
	if _, err := ask(conn, "gone?", most); err == nil || isSilence(err) {
		t.Errorf("cut, and a connection goes on: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr()); err == nil {
		_ = c.Close()
		t.Error("cut, and takes a connection")
	}
}
