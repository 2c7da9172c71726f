package zookeeper

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"sync/atomic"
	"time"
)

// A dialer reads the session timeout that the server grants from the bytes of the connection.
// The timeout may be shorter than requested, and the library does not report it.
type dialer struct{ timeout atomic.Int64 }

// granted returns the session's timeout, or a practically infinite one before the session
// exists.
func (d *dialer) granted() time.Duration {
	if t := d.timeout.Load(); t > 0 {
		return time.Duration(t)
	}
	return math.MaxInt64
}

func (d *dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return &greeted{Conn: conn, dialer: d}, nil
}

// greeted is a connection that begins with the server's greeting: the length, the protocol
// version and the timeout in ms, four bytes each.
type greeted struct {
	net.Conn
	dialer *dialer
	seen   []byte
}

const greeting = 12

func (g *greeted) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if missing := greeting - len(g.seen); missing > 0 {
		g.seen = append(g.seen, b[:min(n, missing)]...)
		if ms := int32(0); len(g.seen) == greeting {
			ms = int32(binary.BigEndian.Uint32(g.seen[8:]))
			if ms > 0 { // 0 means that the session has expired; the library starts a new one
				g.dialer.timeout.Store(int64(ms) * int64(time.Millisecond))
			}
		}
	}
	return n, err
}
