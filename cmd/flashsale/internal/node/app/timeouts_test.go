package app

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// A request body that arrives too slowly is rejected. A stream ends when its token expires or
// when it reaches WatchLife. It may last longer than the server's WriteTimeout.
func TestConnectionsEnd(t *testing.T) {
	cfg := testConfig(t, servertest.Open(t, servers.KindEmbedded))
	cfg.WatchLife = time.Hour
	a, err := New(cfg)
	check.Must(t, err)
	defer a.close()
	a.web.SetReady(true)
	for name, c := range map[string]struct {
		request        string // TOKEN stands for a token with the lifetime below
		token          time.Duration
		status         int
		least, longest time.Duration
	}{
		"body": {"POST /v1/orders HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\nAuthorization: Bearer TOKEN\r\nHost: x\r\n\r\n{",
			time.Hour, 400, 5 * time.Second, 20 * time.Second},
		"token": {"GET /v1/live HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nHost: x\r\n\r\n", 5 * time.Minute, 200, 5*time.Minute - time.Second, 5 * time.Minute},
		"life":  {"GET /v1/live HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nHost: x\r\n\r\n", 2 * time.Hour, 200, time.Hour * 3 / 4, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, served := net.Pipe()
				l := &pipe{conns: make(chan net.Conn, 1)}
				l.conns <- served
				server := a.server(a.web)
				go func() { _ = server.Serve(l) }()
				defer func() { _ = server.Close() }()
				began := time.Now()
				token, err := a.verifier.Sign("op", true, c.token)
				check.Must(t, err)
				go func() { _, _ = io.WriteString(client, strings.Replace(c.request, "TOKEN", token, 1)) }()
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				check.Must(t, err)
				defer func() { _ = res.Body.Close() }()
				text, _ := io.ReadAll(res.Body)
				if took := time.Since(began); res.StatusCode != c.status || took < c.least || took > c.longest {
					t.Errorf("connection to the node: got %d after %v, want %d after %v to %v: %s", res.StatusCode, took, c.status, c.least, c.longest, text)
				}
			})
		})
	}
}

// A pipe is a net.Listener that accepts the connections sent to conns.
type pipe struct{ conns chan net.Conn }

func (p *pipe) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *pipe) Close() error   { close(p.conns); return nil }
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{} }
