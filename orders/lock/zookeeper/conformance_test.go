package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/locktest"
)

// server is shared by all tests, because ZooKeeper takes a second to start.
var server *servers.ZooKeeper

func TestMain(m *testing.M) {
	var err error
	if os.Getenv("FLASHSALE_TEST_REAL") != "off" {
		server, err = servers.StartZooKeeper(context.Background())
	}
	missing := errors.Is(err, servers.ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require"
	if err != nil && !missing {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	servertest.Prepare()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction("flashsale/loadtest/servers.startChild.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if server != nil {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func start(t testing.TB, addr string, cfg lease.Config) *Client {
	c, err := New([]string{addr}, cfg)
	check.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

func wantServer(t testing.TB) {
	if server == nil {
		t.Skip("no ZooKeeper: apt-get install zookeeper")
	}
}

func TestConformance(t *testing.T) {
	wantServer(t)
	locktest.Run(t, locktest.Store{
		Servers:        []string{server.Addr()},
		LeaseOfSession: true,
		New: func(t testing.TB, servers []string, cfg lease.Config) lease.Locker {
			return start(t, servers[0], cfg)
		},
		Fence: func(_ testing.TB, l lease.Locker) fence.Issuer { return Fence{l.(*Client)} },
		Steal: func(t testing.TB, key string) {
			c := start(t, server.Addr(), lease.Config{})
			queue, err := c.queue(t.Context(), folder(key))
			if err != nil || len(queue) == 0 {
				t.Fatal("steal: got an empty queue or an error, want the holder in the queue: ", err)
			}
			check.Must(t, c.conn.Delete(folder(key)+"/"+queue[0], -1))
		},
		Acquires: sends(opCreate), Renews: sends(opExists), Releases: sends(opDelete),
		Lease:   3 * time.Second,
		InOrder: true,
	})
}

// The tests recognize these operations on the wire. A request begins with its length, its number
// and its operation, four bytes each.
const (
	opCreate = 1
	opDelete = 2
	opExists = 3
)

func sends(op uint32) func([]byte) bool {
	return func(chunk []byte) bool { return len(chunk) >= 12 && binary.BigEndian.Uint32(chunk[8:]) == op }
}

// If the ensemble grants a session that is shorter than the lease, the client refuses to
// acquire locks: the session would end before the lock's context does.
func TestSessionShorterThanLease(t *testing.T) {
	wantServer(t)
	c := start(t, server.Addr(), lease.Config{Lease: time.Minute})
	if l, err := c.TryAcquire(t.Context(), "lock:{short}"); err == nil {
		t.Errorf("acquire in a short session: got lock %s for a minute in a session of %v, want an error", l.Key(), c.dialer.granted())
	}
	if got := c.dialer.granted(); got != 10*time.Second {
		t.Errorf("session: got timeout %v, want the server's limit of 10s", got)
	}
}

// The queue is in the order of the server's numbers, whatever the random text is.
func TestQueueIsOrderedByNumber(t *testing.T) {
	wantServer(t)
	c, ctx := start(t, server.Addr(), lease.Config{}), t.Context()
	var entered []string
	for _, random := range []string{"c", "a", "b"} {
		check.Must(t, c.enter(ctx, node{folder("lock:{line}"), random}))
		entered = append(entered, random)
	}
	queue, err := c.queue(ctx, folder("lock:{line}"))
	if err != nil || len(queue) != 3 {
		t.Fatalf("wait queue: got %q, error %v, want 3 nodes", queue, err)
	}
	for i, n := range queue {
		if name(n) != entered[i] {
			t.Errorf("wait queue, place %d: got node %s, want random text %s", i, n, entered[i])
		}
	}
	if _, err := c.conn.Multi(&zk.DeleteRequest{Path: folder("lock:{line}") + "/" + queue[0], Version: -1}); err != nil {
		t.Fatalf("delete the first node: got error %v, want none", err)
	}
}
