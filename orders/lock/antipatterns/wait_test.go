package antipatterns

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/lock"
)

// WAIT 1 returns when one replica has the write, but a failover may promote the other replica.
// WAIT also covers only the writes of its own connection. The test uses real servers, because
// miniredis has no replicas.
func TestAntipatternWait(t *testing.T) {
	showOutside(t, func(s *scene) error {
		r := &resource{unfenced: true}
		master, near, far := s.replicated()
		s.say("the connection of the far replica breaks")
		s.cutOff(far)
		s.say("A acquires the lock, and waits until a replica has it")
		conn := master.conn.Conn() // WAIT covers only the writes of its own connection
		defer conn.Close()
		check.Must(s, conn.SetNX(s.ctx, key, "A", long).Err())
		replicas, err := conn.Wait(s.ctx, 1, soon).Result()
		check.Must(s, err)
		if replicas < 1 {
			s.Fatal("replicas with the lock: got none, want 1")
		}
		s.say("%d replica has the lock. The master and that replica die", replicas)
		s.promote(far, master, near)
		acquired, err := far.conn.SetNX(s.ctx, key, "B", long).Result()
		check.Must(s, err)
		if !acquired {
			return nil
		}
		s.say("the far replica becomes the master, and B acquires the lock there and writes")
		check.Must(s, r.write(0, "B"))
		s.say("A writes: %v", r.write(0, "A"))
		return lastWord(r)
	}, func(s *scene) error {
		r := &resource{}
		master, near, far := s.replicated()
		s.say("the connection of the far replica breaks")
		s.cutOff(far)
		s.say("A acquires the lock, and receives a token from the resource that it will write")
		if !s.acquires(lock.New(master.conn, config)) {
			s.Fatal("client A: got the lock held, want it free")
		}
		fenceA := r.raise()
		s.say("A's token is %d. The master and the other replica die", fenceA)
		s.promote(far, master, near)
		if !s.acquires(lock.New(far.conn, config)) {
			return errors.New("B: the lock is held, want it lost in the failover")
		}
		fenceB := r.raise()
		s.say("the far replica becomes the master, and B acquires the lock there with token %d", fenceB)
		check.Must(s, r.write(fenceB, "B"))
		s.say("A writes: %v", r.write(fenceA, "A"))
		return lastWord(r)
	})
}

// soon is longer than a replica needs on a busy machine, and shorter than the client's timeout.
const soon = 50 * time.Second

// A node is a real Redis server with a connection to it.
type node struct {
	*servers.Redis
	conn *redis.Client
}

// replicated starts a master and two replicas that have all of its data.
func (s *scene) replicated() (master, near, far node) {
	s.Helper()
	nodes := make([]node, 3)
	for i := range nodes {
		r := servertest.OpenRedis(s.T, servers.KindReal).Real
		nodes[i] = node{r, servertest.Connect(s, r.Addr())}
	}
	master, near, far = nodes[0], nodes[1], nodes[2]
	// By default, a master waits five seconds for more replicas before it sends its data.
	check.Must(s, master.conn.ConfigSet(s.ctx, "repl-diskless-sync-delay", "0").Err())
	for _, replica := range []node{near, far} {
		host, port, _ := strings.Cut(master.Addr(), ":")
		check.Must(s, replica.conn.ReplicaOf(s.ctx, host, port).Err())
		s.await(replica, "master_link_status:up")
	}
	return master, near, far
}

// cutOff makes a replica follow an address without a server. The replica keeps its data and
// receives no further writes.
func (s *scene) cutOff(replica node) {
	s.Helper()
	check.Must(s, replica.conn.ReplicaOf(s.ctx, "127.0.0.1", "1").Err())
	s.await(replica, "master_link_status:down")
}

// promote kills the dead nodes and makes replica the master.
func (s *scene) promote(replica node, dead ...node) {
	s.Helper()
	for _, n := range dead {
		n.Kill()
	}
	check.Must(s, replica.conn.ReplicaOf(s.ctx, "NO", "ONE").Err())
	s.await(replica, "role:master")
}

// await waits until INFO of the node contains line.
func (s *scene) await(n node, line string) {
	s.Helper()
	check.Eventually(s, line, func() bool {
		info, err := n.conn.Info(s.ctx, "replication").Result()
		return err == nil && strings.Contains(info, line)
	})
}
