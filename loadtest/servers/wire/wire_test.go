package wire

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// echo starts a server that answers each line with itself. The channel receives the lines.
func echo(t *testing.T) (addr string, got <-chan string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	lines := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					lines <- in.Text()
					if _, err := c.Write([]byte(in.Text() + "\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), lines
}

type client struct {
	net.Conn
	in       *bufio.Reader
	deadline time.Time
}

func open(t *testing.T) (w *Wire, got <-chan string, dial func() *client) {
	t.Helper()
	addr, got := echo(t)
	w, err := Open(addr)
	check.Must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w, got, func() *client {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.Addr())
		check.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return &client{c, bufio.NewReader(c), check.Deadline(t)}
	}
}

// ask sends a line and waits for its echo for at most d.
func (c *client) ask(line string, d time.Duration) (string, error) {
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	return c.receive(d)
}

func (c *client) receive(d time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(min(d, time.Until(c.deadline))))
	answer, err := c.in.ReadString('\n')
	return strings.TrimSpace(answer), err
}

const (
	soon  = 50 * time.Millisecond // limit for an answer that must not come
	later = time.Hour             // limit for an answer that must come; receive shortens it to the deadline of the test
)

func mustEcho(t *testing.T, c *client, line string) {
	t.Helper()
	if answer, err := c.ask(line, later); err != nil || answer != line {
		t.Fatalf("echo: got %q, error %v, want %q", answer, err, line)
	}
}

// mustFail sends a line and expects no answer within d.
func mustFail(t *testing.T, c *client, line string, d time.Duration) {
	t.Helper()
	if answer, err := c.ask(line, d); err == nil {
		t.Errorf("line %s: got answer %q, want none", line, answer)
	}
}

func TestCutAndRestore(t *testing.T) {
	w, _, dial := open(t)
	c := dial()
	mustEcho(t, c, "a")
	w.Cut()
	mustFail(t, c, "b", later)
	mustFail(t, dial(), "b", later)
	w.Restore()
	mustEcho(t, dial(), "c")
}

func TestFreeze(t *testing.T) {
	w, got, dial := open(t)
	c := dial()
	mustEcho(t, c, "a")
	<-got
	w.Freeze()
	fresh := dial()
	for _, c := range []*client{c, fresh} {
		mustFail(t, c, "b", soon)
	}
	if len(got) > 0 {
		t.Errorf("while frozen: server got %q, want nothing", <-got)
	}
	w.Thaw()
	for _, c := range []*client{c, fresh} {
		if answer, err := c.receive(later); answer != "b" {
			t.Errorf("after Thaw: got %q, error %v, want b", answer, err)
		}
	}
}

// Each direction has its own delay. Pieces that travel together are delayed once, not one
// after the other.
func TestDelay(t *testing.T) {
	const d, jitter, pieces = 2 * time.Second, time.Second, 10
	for _, which := range []Direction{Requests, Answers, Both} {
		for _, on := range []Direction{Requests, Answers} {
			synctest.Test(t, func(t *testing.T) {
				client, from := net.Pipe()
				to, server := net.Pipe()
				w := &Wire{}
				w.Delay(which, d, jitter)
				go w.carry(to, from, on, func(piece []byte) ([]byte, bool) { return piece, true })
				began := time.Now()
				go func() {
					for range pieces {
						_, _ = client.Write([]byte("a"))
					}
					_ = client.Close()
				}()
				for range pieces {
					check.Must(t, check.Err(server.Read(make([]byte, 1))))
				}
				least, longest := d-jitter, d+jitter
				if which&on == 0 {
					least, longest = 0, 0
				}
				if took := time.Since(began); took < least || took > longest {
					t.Errorf("delay %d of the wire: got %d pieces in direction %d after %v, want %v to %v", which, pieces, on, took, least, longest)
				}
			})
		}
	}
}

// Traffic in one direction is lost. Mend closes the connection, so that the client learns
// of the loss.
func TestLose(t *testing.T) {
	for which, arrives := range map[Direction]int{Requests: 0, Answers: 1} {
		w, got, dial := open(t)
		c := dial()
		mustEcho(t, c, "a")
		<-got
		mend := w.DropTraffic(which)
		for _, c := range []*client{c, dial()} {
			var timeout net.Error
			if answer, err := c.ask("b", soon); !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("direction %d: got %q, error %v, want a timeout", which, answer, err)
			}
			for range arrives {
				<-got
			}
			if len(got) > 0 {
				t.Errorf("direction %d: got %d more lines at the server, want none", which, len(got))
			}
		}
		mend()
		mustFail(t, c, "c", later)
		mustEcho(t, dial(), "d")
	}
}

func TestWatchAndBefore(t *testing.T) {
	addr, _ := echo(t)
	via, w, err := OpenForURL("user@tcp(" + addr + ")/database")
	check.Must(t, err)
	defer func() { _ = w.Close() }()
	if want := "user@tcp(" + w.Addr() + ")/database"; via != want {
		t.Errorf("Before: got %q, want %q", via, want)
	}
	if _, _, err := OpenForURL("user@tcp(example.org:3306)/database"); err == nil {
		t.Error("Before a server that is not on loopback: got no error, want one")
	}
	seen := make(chan string, 10)
	w.Watch(func() func([]byte) {
		seen <- "new"
		return func(sent []byte) { seen <- string(sent) }
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.Addr())
	check.Must(t, err)
	mustEcho(t, &client{conn, bufio.NewReader(conn), check.Deadline(t)}, "a")
	if one, two := <-seen, <-seen; one != "new" || two != "a\n" {
		t.Errorf("lines that Watch saw: got %q and %q, want new and a", one, two)
	}
}

func TestRedirect(t *testing.T) {
	w, _, dial := open(t)
	c := dial()
	mustEcho(t, c, "a")
	other, got := echo(t)
	w.Redirect(other)
	mustFail(t, c, "b", later)
	mustEcho(t, dial(), "c")
	if line := <-got; line != "c" {
		t.Errorf("other server: got %q, want c", line)
	}
}
