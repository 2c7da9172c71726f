// Package link is a network between a client and a server that can be made
// bad: for drills, and for comparing what survives it.
package link

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Link can be cut, slowed down, and led to another server. The client's
// address for it stays the same.
type Link struct{ proxy *toxiproxy.Proxy }

// Open opens a link to an address. Cut closes it.
func Open(to string) (*Link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "link to "+to, "127.0.0.1:0", to)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("link to %s: %w", to, err)
	}
	return &Link{proxy}, nil
}

// Addr is the client's address for the server.
func (l *Link) Addr() string { return l.proxy.Listen }

// Cut breaks every connection and takes no new one.
func (l *Link) Cut() { l.proxy.Stop() }

// Lead breaks every connection; new ones go to another server.
func (l *Link) Lead(to string) error {
	err := l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: to, Enabled: true})
	if err != nil {
		return fmt.Errorf("lead the link to %s: %w", to, err)
	}
	return nil
}

// The two directions of a link, as toxiproxy calls them.
const (
	requests = "upstream"
	answers  = "downstream"
)

// spoil does something to one direction, until mend is called.
func (l *Link) spoil(kind, direction string, attributes map[string]int64) (mend func() error, err error) {
	name := kind + "-" + direction
	toxic, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": direction, "attributes": attributes})
	if err != nil {
		return nil, err
	}
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic))); err != nil {
		return nil, fmt.Errorf("spoil the link: %w", err)
	}
	return func() error { return l.proxy.Toxics.RemoveToxic(context.Background(), name) }, nil
}

// Delay holds every answer back for about so many milliseconds.
func (l *Link) Delay(ms, jitter int64) (mend func() error, err error) {
	return l.spoil("latency", answers, map[string]int64{"latency": ms, "jitter": jitter})
}

// Lag holds every request back for about so many milliseconds.
func (l *Link) Lag(ms, jitter int64) (mend func() error, err error) {
	return l.spoil("latency", requests, map[string]int64{"latency": ms, "jitter": jitter})
}

// Swallow lets requests through and no answers. Mending breaks the connections
// on which answers are missing.
func (l *Link) Swallow() (mend func() error, err error) {
	return l.spoil("timeout", answers, map[string]int64{"timeout": 0})
}

// Block lets no requests through: the server never hears of them. Mending
// breaks the connections on which some were sent.
func (l *Link) Block() (mend func() error, err error) {
	return l.spoil("timeout", requests, map[string]int64{"timeout": 0})
}
