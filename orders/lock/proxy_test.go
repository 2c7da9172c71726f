package lock

import (
	"bytes"
	"testing"

	"flashsale/orders/lock/internal/proxy"
)

// A faulty server is one that loses answers.
type faulty struct {
	server
	*proxy.Proxy
}

func newProxy(t *testing.T, s server) *faulty {
	p := proxy.New(t, s.addr)
	return &faulty{server{p.Addr, soon}, p}
}

// lose loses the answers to the next n commands that contain the marker.
func (f *faulty) lose(marker string, n int, mute bool) {
	f.Lose(n, mute, func(chunk []byte) bool { return bytes.Contains(chunk, []byte(marker)) })
}
