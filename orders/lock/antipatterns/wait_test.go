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

// WAIT 1 answers when one replica has heard of the write. It does not say which
// one, and no failover asks: of two replicas, the one takes over that had not
// heard. So does each write that went by another connection than WAIT did. These
// are real servers: an embedded one has no replicas.
func TestAntipatternWait(t *testing.T) {
	showOutside(t, func(s *scene) error {
		r := &resource{unfenced: true}
		master, near, far := s.replicated()
		s.say("the far replica's link breaks")
		s.cutOff(far)
		s.say("A takes the lock, and waits until a replica has it")
		conn := master.conn.Conn() // WAIT is for what this connection wrote
		defer conn.Close()
		check.Must(s, conn.SetNX(s.ctx, key, "A", long).Err())
		heard, err := conn.Wait(s.ctx, 1, soon).Result()
		check.Must(s, err)
		if heard < 1 {
			s.Fatal("no replica has heard")
		}
		s.say("%d has: safe, it believes. The master dies, and the replica that has heard with it", heard)
		s.promote(far, master, near)
		entered, err := far.conn.SetNX(s.ctx, key, "B", long).Result()
		check.Must(s, err)
		if !entered {
			return nil
		}
		s.say("The far replica takes over, and B takes the lock there, and writes")
		check.Must(s, r.write(0, "B"))
		s.say("A writes: %v", r.write(0, "A"))
		return lastWord(r)
	}, func(s *scene) error {
		r := &resource{}
		master, near, far := s.replicated()
		s.say("the far replica's link breaks")
		s.cutOff(far)
		s.say("A takes the lock, and a token from the resource that it will write")
		if !s.enters(lock.New(master.conn, config)) {
			s.Fatal("not free")
		}
		fenceA := r.raise()
		s.say("A: %d. The master dies, and the other replica with it", fenceA)
		s.promote(far, master, near)
		if !s.enters(lock.New(far.conn, config)) {
			return errors.New("this is no failover")
		}
		fenceB := r.raise()
		s.say("The far replica takes over, and B takes the lock there, and a token: %d", fenceB)
		check.Must(s, r.write(fenceB, "B"))
		s.say("A writes: %v", r.write(fenceA, "A"))
		return lastWord(r)
	})
}

// soon is longer than a busy replica needs, and shorter than the timeout of the client.
const soon = 50 * time.Second

// A node is one real Redis of several.
type node struct {
	*servers.Redis
	conn *redis.Client
}

// replicated is a master and two replicas that have heard of all it has.
func (s *scene) replicated() (master, near, far node) {
	s.Helper()
	nodes := make([]node, 3)
	for i := range nodes {
		r := servertest.OpenRedis(s.T, servers.KindReal).Real
		nodes[i] = node{r, servertest.Connect(s, r.Addr())}
	}
	master, near, far = nodes[0], nodes[1], nodes[2]
	// Else a master waits five seconds for more replicas before it sends its data.
	check.Must(s, master.conn.ConfigSet(s.ctx, "repl-diskless-sync-delay", "0").Err())
	for _, replica := range []node{near, far} {
		host, port, _ := strings.Cut(master.Addr(), ":")
		check.Must(s, replica.conn.ReplicaOf(s.ctx, host, port).Err())
		s.await(replica, "master_link_status:up")
	}
	return master, near, far
}

// cutOff has a replica follow an address where nobody is: it keeps what it has
// heard, and hears nothing more.
func (s *scene) cutOff(replica node) {
	s.Helper()
	check.Must(s, replica.conn.ReplicaOf(s.ctx, "127.0.0.1", "1").Err())
	s.await(replica, "master_link_status:down")
}

// promote makes a replica the master, after the others have died.
func (s *scene) promote(replica node, dead ...node) {
	s.Helper()
	for _, n := range dead {
		n.Kill()
	}
	check.Must(s, replica.conn.ReplicaOf(s.ctx, "NO", "ONE").Err())
	s.await(replica, "role:master")
}

// await waits until a node's INFO says so.
func (s *scene) await(n node, line string) {
	s.Helper()
	check.Eventually(s, line, func() bool {
		info, err := n.conn.Info(s.ctx, "replication").Result()
		return err == nil && strings.Contains(info, line)
	})
}
