package wire

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// In a bubble, a wire in the in-memory network forwards, delays and cuts like a TCP wire.
func TestInMemory(t *testing.T) { synctest.Test(t, inMemoryWire) }

func inMemoryWire(t *testing.T) {
	addr, stop := Serve(func() (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			_, _ = io.Copy(server, server)
			_ = server.Close()
		}()
		return client, nil
	})
	defer stop()
	w, err := Open(addr)
	check.Must(t, err)
	defer func() { check.Must(t, w.Close()) }()
	conn, err := Dial(t.Context(), "tcp", w.Addr())
	check.Must(t, err)
	defer func() { _ = conn.Close() }()

	w.Delay(Both, time.Hour, 0)
	began, answer := time.Now(), make([]byte, 4)
	for _, half := range []string{"an", "d!"} { // both writes come before the first read
		check.Must(t, check.Err(conn.Write([]byte(half))))
	}
	check.Must(t, check.Err(io.ReadFull(conn, answer)))
	if took := time.Since(began); string(answer) != "and!" || took != 2*time.Hour {
		t.Errorf("answer through the delayed wire: got %q after %v, want and! after 2 h", answer, took)
	}
	w.Cut()
	check.Is(t, check.Err(conn.Read(answer)), io.EOF)
	synctest.Wait()
	check.Is(t, check.Err(conn.Write(answer)), nil) // the first write after a cut succeeds, as in TCP
	synctest.Wait()
	check.Is(t, check.Err(conn.Write(answer)), io.EOF)
	check.Must(t, conn.SetDeadline(time.Now().Add(time.Hour)))
	stop()
	if _, err := Dial(t.Context(), "tcp", addr); err == nil {
		t.Error("Dial of a stopped server: got no error, want one")
	}
}
