package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// actAsServer, as the first argument, turns the test binary into a server.
const actAsServer = "act-as-server"

func serveUntilKilled(addr string) {
	fmt.Println("listening on", addr)
	err := http.ListenAndServe(addr, http.NotFoundHandler())
	fmt.Println(err)
	os.Exit(1)
}

func dial(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func ownServer(args func(addr string) []string) Command {
	return Command{Path: os.Args[0], Args: args, Serving: dial}
}

func TestStartCommand(t *testing.T) {
	p, err := StartCommand(t.Context(), ownServer(func(addr string) []string { return []string{actAsServer, addr} }))
	need(t, err)
	defer func() { need(t, p.Close()) }()
	if p.Pid() == 0 || !strings.Contains(p.LogTail(), p.Addr()) {
		t.Errorf("started command: got pid %d, address %s, log %q, want a pid and the address in the log", p.Pid(), p.Addr(), p.LogTail())
	}
	p.Kill()
	if err := dial(t.Context(), p.Addr()); err == nil {
		t.Error("dial after Kill: got a connection, want an error")
	}
	need(t, p.Restart(t.Context()))
	need(t, dial(t.Context(), p.Addr()))
	// Log contains the output of both starts.
	if log, err := p.Log(); err != nil || strings.Count(string(log), "listening on") != 2 {
		t.Errorf("log: got %q, error %v, want the output of two starts", log, err)
	}
	need(t, p.Close())
	if left := remains(t, p.Addr()); len(left) > 0 && strings.Contains(strings.Join(left, " "), "listener") {
		t.Errorf("after Close: got %v, want no listener", left)
	}
}

// Another process may take the port before the server does.
func TestStartCommandTriesAnotherPort(t *testing.T) {
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	need(t, err)
	defer other.Close()
	// On the taken port, the other process would answer.
	serves := func(ctx context.Context, addr string) error {
		if addr == other.Addr().String() {
			return errors.New("another process answers")
		}
		return dial(ctx, addr)
	}
	tries := 0
	c := ownServer(func(addr string) []string {
		if tries++; tries == 1 {
			addr = other.Addr().String()
		}
		return []string{actAsServer, addr}
	})
	c.Serving = serves
	p, err := StartCommand(t.Context(), c)
	need(t, err)
	need(t, p.Close())
	if tries != 2 {
		t.Errorf("tries: got %d, want 2", tries)
	}
}
