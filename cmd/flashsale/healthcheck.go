package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthcheckCommand is for images that hold nothing else that could ask.
type healthcheckCommand struct {
	URL     string        `arg:"" optional:"" help:"URL to ask. Default: /readyz at --addr on this machine."`
	Addr    string        `default:"${addr}" placeholder:"HOST:PORT" help:"The --addr of the node. Default ${default}."`
	Timeout time.Duration `default:"2s" help:"Timeout of the whole answer. Default ${default}."`
}

// Run ends without an error if the answer is a 2xx. Else it says why not, for
// whoever inspects the container, and ends with status 1: the one that Docker
// knows as unhealthy.
func (c *healthcheckCommand) Run(ctx context.Context, s streams) error {
	ready, err := readyURL(c.Addr)
	if c.URL == "" && err != nil {
		return err
	}
	if err := healthy(ctx, cmp.Or(c.URL, ready), c.Timeout); err != nil {
		_, _ = fmt.Fprintln(s.err, "unhealthy:", err)
		return exitCode(1)
	}
	return nil
}

// readyURL is /readyz of a node that listens on addr, asked from its own
// machine.
func readyURL(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("addr: %w (want HOST:PORT, such as :8080)", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // every address of the machine: of either family
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}

// healthy tells whether url answers with a 2xx within timeout, and if not why.
func healthy(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// A transport of its own: the environment's proxy is not for this.
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the problem that names what is missing
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s: %s", url, res.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
