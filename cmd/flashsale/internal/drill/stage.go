package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/cmd/flashsale/internal/link"
	"flashsale/loadtest/servers"
)

const (
	sku = "drill" // the one sale of every stage

	// lease is shorter than serve's default: a drill lasts seconds.
	lease = 2 * time.Second
	// directAfter is how long Redis must be gone, for the same reason: longer
	// than where a drill merely has it restart.
	directAfter = 1500 * time.Millisecond
	// wait is for a durable order, before 202.
	wait = time.Second
	// clientTimeout leaves the balancer time to ask another node.
	clientTimeout = 8 * time.Second
)

// A stage is what one drill is done to: private servers, nodes, and the
// balancer that the buyers talk to.
type stage struct {
	drill
	cfg      Config
	random   *mathrand.Rand // the harm's goroutine's
	secret   string
	verifier *auth.Verifier

	stores      *servers.Stores
	replica     *servers.Redis // nil unless asked for, like the links
	redisLink   *link.Link
	mysqlLink   *link.Link
	replicaLink *link.Link
	nodes       []*node
	balancer    *Balancer

	mu     sync.Mutex
	deeds  []string
	breaks []string
}

// open starts everything. The servers are as durable as in production.
func (d drill) open(ctx context.Context, cfg Config) (_ *stage, err error) {
	s := &stage{drill: d, cfg: cfg, secret: rand.Text() + rand.Text(), random: d.numbers(cfg.Seed)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.verifier, err = auth.New([]byte(s.secret), nil); err != nil {
		return nil, err
	}
	s.stores, err = servers.Real(ctx, servers.Options{Redis: servers.RedisOptions{AppendFsync: "always"}})
	if err != nil {
		return nil, err
	}
	if err := s.openLinks(ctx); err != nil {
		return nil, err
	}
	var urls []string
	for i := range 3 {
		n, err := s.startNode(ctx, fmt.Sprint("node-", i+1))
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, n)
		urls = append(urls, "http://"+n.Addr())
	}
	s.balancer, err = Balance(urls...)
	return s, err
}

// numbers are what the moments are drawn with. Each drill has numbers of its own, so that it does
// the same when it is run alone.
func (d drill) numbers(seed int64) *mathrand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.name))
	return mathrand.New(mathrand.NewPCG(uint64(seed), h.Sum64()))
}

// openLinks puts links where the drill needs them.
func (s *stage) openLinks(ctx context.Context) (err error) {
	if s.drill.redisLink {
		if s.redisLink, err = link.Open(s.stores.Redis.Addr()); err != nil {
			return err
		}
	}
	if s.drill.mysqlLink {
		if s.mysqlLink, err = link.Open(s.stores.MySQL.Addr()); err != nil {
			return err
		}
	}
	if s.drill.replica {
		if s.replicaLink, err = link.Open(s.stores.Redis.Addr()); err != nil {
			return err
		}
		s.replica, err = startReplica(ctx, s.replicaLink.Addr())
	}
	return err
}

// close ends everything, whatever state it is in.
func (s *stage) close() error {
	var errs []error
	if s.balancer != nil {
		errs = append(errs, s.balancer.Close())
	}
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
		n.cutWires()
	}
	for _, l := range []*link.Link{s.redisLink, s.mysqlLink, s.replicaLink} {
		if l != nil {
			l.Cut()
		}
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Close())
	}
	if s.stores != nil {
		errs = append(errs, s.stores.Close())
	}
	return errors.Join(errs...)
}

// processes are all servers, by the names of their logs.
func (s *stage) processes() map[string]*servers.Process {
	all := map[string]*servers.Process{"redis": s.stores.Redis.Process, "mysql": s.stores.MySQL.Process}
	if s.replica != nil {
		all["redis-replica"] = s.replica.Process
	}
	for _, n := range s.nodes {
		all[n.name] = n.Process
	}
	return all
}

// did notes a step of the harm, with its time in the attack.
func (s *stage) did(format string, args ...any) {
	deed := fmt.Sprintf(format, args...)
	if at, ok := s.balancer.elapsed(); ok {
		deed = fmt.Sprintf("%.1fs %s", at.Seconds(), deed)
	}
	s.cfg.say("%s: %s", s.name, deed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deeds = append(s.deeds, deed)
}

func (s *stage) done() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deeds
}

// broke notes that a promise is broken, as the drill has seen for itself.
func (s *stage) broke(format string, args ...any) {
	broken := fmt.Sprintf(format, args...)
	s.cfg.say("%s: BROKEN: %s", s.name, broken)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks = append(s.breaks, broken)
}

func (s *stage) broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaks
}
