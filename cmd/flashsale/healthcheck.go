package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
)

// healthcheckCommand is the health check of container images, which contain no curl.
type healthcheckCommand struct {
	URL     string        `arg:"" optional:"" help:"URL of the node's /readyz. Default: /readyz at --addr on this machine."`
	Addr    string        `default:"${addr}" placeholder:"HOST:PORT" help:"Address on which the node listens: its --addr. Default ${default}."`
	Timeout time.Duration `default:"2s" help:"Timeout of the request. Default ${default}."`
	Quiet   bool          `help:"Print nothing if the node is healthy."`
}

// Run returns nil if the response is a 2xx, and prints the state of the node. Otherwise it prints
// the cause, which docker inspect shows, and returns exit status 1, which Docker takes as unhealthy.
func (c *healthcheckCommand) Run(ctx context.Context, s streams) error {
	ready, err := readyURL(c.Addr)
	if c.URL == "" && err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	url := cmp.Or(c.URL, ready)
	degraded, err := api.New(url, "").Ready(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(s.err, "unhealthy:", err)
		return exitCode(1)
	}
	switch {
	case degraded != "":
		_, _ = fmt.Fprintln(s.out, "degraded:", degraded)
	case !c.Quiet:
		_, _ = fmt.Fprintln(s.out, "healthy:", app.Redact(url))
	}
	return nil
}

// readyURL returns the URL of /readyz for a node on this machine that listens on addr.
func readyURL(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("--addr: %w (want HOST:PORT, such as :8080)", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // resolves to both the IPv4 and the IPv6 loopback address
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", nil
}
