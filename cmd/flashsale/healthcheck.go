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

// healthcheckCommand is the health check of container images, which contain no curl.
type healthcheckCommand struct {
	URL     string        `arg:"" optional:"" help:"URL to request. Default: /readyz at --addr on this machine."`
	Addr    string        `default:"${addr}" placeholder:"HOST:PORT" help:"Address on which the node listens: its --addr. Default ${default}."`
	Timeout time.Duration `default:"2s" help:"Timeout of the request. Default ${default}."`
}

// Run returns nil if the response is a 2xx. Otherwise it prints the cause, which
// docker inspect shows, and returns exit status 1, which Docker takes as unhealthy.
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

// readyURL returns the URL of /readyz for a node on this machine that listens on addr.
func readyURL(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("parse --addr: %w (want HOST:PORT, such as :8080)", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // resolves to both the IPv4 and the IPv6 loopback address
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}

// healthy returns nil if url responds with a 2xx within timeout.
func healthy(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// The default transport would use a proxy that the environment names.
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // names the store that does not respond
	if err != nil {
		return fmt.Errorf("read the response of %s: %w", url, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("GET %s: got status %s, want 2xx: %s", url, res.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
