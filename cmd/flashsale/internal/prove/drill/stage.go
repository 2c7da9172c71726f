package drill

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql" // the drill's own look at the database
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

const (
	sku = "drill" // the one sale of every stage

	// lease is shorter than serve's default: a drill lasts seconds.
	lease = 2 * time.Second
	// directAfter is how long Redis must be gone, for the same reason: longer
	// than where a drill merely has it restart.
	directAfter = 1500 * time.Millisecond
	// clientTimeout leaves the balancer time to ask another node.
	clientTimeout = 8 * time.Second
)

// A stage is what one drill is done to: a lab, and the balancer that the buyers
// talk to.
type stage struct {
	drill
	*lab.Lab
	cfg      Config
	random   *rand.Rand // the fault's goroutine's
	balancer *lab.Balancer
	operator *api.Client

	// The drill's own look at the stores, past the nodes.
	redis *redis.Client
	mysql *sql.DB

	replica   *servers.Redis
	replicaDB *redis.Client
	standbyDB *servers.MySQL // the replica; of a group the new primary

	// Before the store of all nodes, and before the primary of the replica. Nil
	// unless asked for, like the replicas.
	redisWire, mysqlWire, replicaWire *wire.Wire

	mu     sync.Mutex
	events []string
	breaks []string
}

// open starts everything.
func (d drill) open(ctx context.Context, cfg Config) (_ *stage, err error) {
	s := &stage{drill: d, cfg: cfg, random: d.numbers(cfg.Seed)}
	if d.group {
		cfg.MySQL = servers.MySQLOptions{SearchPath: []string{cfg.MySQLFolder}, Group: true}
	}
	if s.Lab, err = lab.Open(ctx, cfg.Config, "--repl-diskless-sync-delay", "0"); err != nil {
		return nil, err
	}
	defer lab.Undo(&err, s.Close)
	if s.mysql, err = sql.Open("mysql", s.Stores.SQL); err != nil {
		return nil, err
	}
	s.Cleanup(s.mysql.Close)
	s.redis = s.client(s.Stores.Redis)
	c := lab.NodeConfig{Strategy: cfg.Strategy, Redis: s.Stores.RedisURL, MySQL: s.Stores.SQL, Wires: d.wires || d.byName()}
	if d.redisWire {
		if c.Redis, s.redisWire, err = s.Before(c.Redis); err != nil {
			return nil, err
		}
	}
	if d.mysqlWire {
		if c.MySQL, s.mysqlWire, err = s.Before(c.MySQL); err != nil {
			return nil, err
		}
	}
	if err := s.openReplicas(ctx); err != nil {
		return nil, err
	}
	var urls []string
	for i := range 3 {
		c.Name, c.Flags = fmt.Sprint("node-", i+1), append(lab.Brief(lease, directAfter),
			"--trusted-proxies", "127.0.0.1") // each buyer of the attack comes from an address of its own
		if d.clocks {
			// Never right, and never by the same amount twice.
			off := s.between(time.Minute, 10*time.Minute).Round(time.Second)
			if s.random.IntN(2) == 0 {
				off = -off
			}
			c.Flags = append(c.Flags, "--clock-off="+off.String())
			s.events = append(s.events, fmt.Sprintf("%s's clock is off by %v", c.Name, off))
		}
		n, err := s.Start(ctx, c)
		if err != nil {
			return nil, err
		}
		urls = append(urls, n.URL())
	}
	if s.balancer, err = lab.Balance(urls...); err != nil {
		return nil, err
	}
	s.Cleanup(s.balancer.Close)
	s.operator, err = s.Operator(s.balancer.URL())
	return s, err
}

func (s *stage) openReplicas(ctx context.Context) (err error) {
	if s.drill.replica {
		err = s.openReplica(ctx)
	}
	if err == nil && s.standby {
		err = s.openStandby(ctx)
	}
	return err
}

// openReplica starts a Redis that follows the first one, by a wire of its own.
func (s *stage) openReplica(ctx context.Context) (err error) {
	if s.replica, err = s.StartRedis(ctx, "redis-replica"); err != nil {
		return err
	}
	s.replicaDB = s.client(s.replica)
	var via string
	if via, s.replicaWire, err = s.Before(s.Stores.Redis.Addr()); err != nil {
		return err
	}
	return lab.Follow(ctx, s.replicaDB, via)
}

func (s *stage) client(r *servers.Redis) *redis.Client {
	c := lab.Redis(r.Addr())
	s.Cleanup(c.Close)
	return c
}

// numbers are what the timing is drawn with. Each drill has numbers of its own, so
// that it does the same when it is run alone.
func (d drill) numbers(seed int64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.name))
	return lab.Numbers(seed, h.Sum64())
}

// did notes a step of the fault, with its time in the attack.
func (s *stage) did(format string, args ...any) {
	event := fmt.Sprintf(format, args...)
	if at := s.balancer.Elapsed(); at > 0 {
		event = fmt.Sprintf("%.1fs %s", at.Seconds(), event)
	}
	s.note(&s.events, event, event)
}

// broke notes that a promise is broken, as the drill has seen for itself.
func (s *stage) broke(format string, args ...any) {
	broken := fmt.Sprintf(format, args...)
	s.note(&s.breaks, broken, "BROKEN: "+broken)
}

func (s *stage) note(list *[]string, line, say string) {
	s.Say("%s: %s", s.name, say)
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, line)
}

// moment waits for the attack and then for the time of the fault: late enough that
// orders are under way, and early enough that there is much left to sell.
func (s *stage) moment(ctx context.Context) error {
	d := s.between(s.cfg.Duration*3/20, s.cfg.Duration*6/20)
	select {
	case <-s.balancer.Began:
		return client.Wait(ctx, d)
	case <-ctx.Done():
		return fmt.Errorf("no attack to disturb: %w", ctx.Err())
	}
}

// between draws a time.
func (s *stage) between(least, most time.Duration) time.Duration {
	return lab.Between(s.random, least, most)
}

// pause lets a drawn time pass, for a fault that has something to mend: it merely
// ends early with ctx.
func (s *stage) pause(ctx context.Context, least, most time.Duration) {
	_ = client.Wait(ctx, s.between(least, most))
}

// until asks until the answer is yes.
func (s *stage) until(ctx context.Context, what string, yes func(ctx context.Context) bool) error {
	return lab.Until(ctx, 20*time.Millisecond, what, func(ctx context.Context) (bool, error) { return yes(ctx), nil })
}

// keeper is the node that keeps the sale, other than one that can't be asked
// any more.
func (s *stage) keeper(ctx context.Context, gone ...*lab.Node) (keeper *lab.Node, err error) {
	err = s.until(ctx, "a node keeps the sale", func(ctx context.Context) bool {
		for _, n := range s.Nodes {
			if !slices.Contains(gone, n) && n.Metric(ctx, "flashsale_keeper_skus") == 1 {
				keeper = n
				return true
			}
		}
		return false
	})
	return keeper, err
}

// tries tries up to so many times, until it succeeds.
func tries(most int, failed string, try func() (bool, error)) error {
	for range most {
		if ok, err := try(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s, in %d attempts", failed, most)
}
