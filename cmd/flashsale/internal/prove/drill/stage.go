package drill

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

const nodeCount = 3

// A stage is a lab whose stores can be replaced. The nodes use one of two Redis servers
// and one of two MySQL servers, and each node has its own wires to them.
type stage struct {
	*lab.Lab
	redises [2]*servers.Redis // the second server is nil until a fault needs it
	active  int               // index of the current Redis
	mysqls  [2]*servers.MySQL // the second server is nil until a fault needs it
	primary int               // index of the current primary
	relay   *wire.Wire        // connection of the replica to the primary
	clock   *clock            // clock of both Redis servers; nil in drills and without a C compiler
}

func openStage(ctx context.Context, cfg lab.Config) (s *stage, err error) {
	l, err := lab.Open(ctx, cfg, "--repl-diskless-sync-delay", "0")
	if err != nil {
		return nil, err
	}
	s = &stage{Lab: l, redises: [2]*servers.Redis{l.Stores.Redis}, mysqls: [2]*servers.MySQL{l.Stores.MySQL}}
	defer lab.CloseOnError(&err, s.Close)
	_, s.relay, err = s.OpenWire(s.Stores.SQL)
	return s, err
}

func (s *stage) startNodes(ctx context.Context, c lab.NodeConfig, flags func(name string) []string) error {
	c.Wires = true
	for i := range nodeCount {
		c.Name = fmt.Sprint("node-", i+1)
		c.Flags = append(flags(c.Name), "--changes")
		if _, err := s.StartNode(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// replica makes the idle Redis a replica of the current one, and returns its client.
func (s *stage) replica(ctx context.Context) (_ *redis.Client, err error) {
	idle := &s.redises[1-s.active]
	switch {
	case *idle == nil:
		*idle, err = s.StartRedis(ctx, "redis-2")
	case (*idle).Pid() == 0:
		err = (*idle).Restart(ctx)
	}
	if err != nil {
		return nil, err
	}
	client := lab.RedisClient((*idle).Addr())
	s.Cleanup(client.Close)
	return client, lab.ReplicateFrom(ctx, client, s.redises[s.active].Addr())
}

// unfollow cuts a replica of Redis off from its primary.
func unfollow(ctx context.Context, replica *redis.Client) error {
	return replica.ReplicaOf(ctx, "127.0.0.1", "1").Err()
}

// standby starts a replica of MySQL's primary if there is none.
func (s *stage) standby(ctx context.Context) (err error) {
	next := &s.mysqls[1-s.primary]
	if *next != nil {
		return nil
	}
	if *next, err = s.StartMySQL(ctx, "mysql-2", servers.MySQLConfig{ExtraArgs: []string{servers.LogReplicated}}); err != nil {
		return err
	}
	return (*next).ReplicateFrom(ctx, s.relay.Addr())
}

// caughtUp waits until MySQL's replica has all transactions of the primary.
func (s *stage) caughtUp(ctx context.Context) error {
	ahead, err := s.mysqls[s.primary].TransactionCount(ctx)
	if err != nil {
		return err
	}
	return lab.Until(ctx, 50*time.Millisecond, "the replica has caught up", func(ctx context.Context) (bool, error) {
		has, err := s.mysqls[1-s.primary].TransactionCount(ctx)
		return err == nil && has >= ahead, nil
	})
}

// supersede pauses MySQL's primary, promotes its replica after a while, and lets the old
// primary continue. The nodes still use the old one.
func (s *stage) supersede(ctx context.Context, after time.Duration) error {
	old := s.mysqls[s.primary]
	if err := old.Pause(); err != nil {
		return err
	}
	s.relay.Cut() // a replica that stops cleanly would wait for the paused primary
	sleep(ctx, after)
	if err := s.promoteMySQL(ctx); err != nil {
		return err
	}
	return old.Resume()
}

// promoteMySQL makes MySQL's replica the primary.
func (s *stage) promoteMySQL(ctx context.Context) error {
	err := s.mysqls[1-s.primary].Promote(context.WithoutCancel(ctx))
	if err == nil {
		s.primary = 1 - s.primary
	}
	return err
}

// leadMySQL connects nodes to the current primary and ends their old connections.
func (s *stage) leadMySQL(nodes ...*lab.Node) {
	for _, n := range nodes {
		n.MySQL.Redirect(s.mysqls[s.primary].Addr())
	}
}

// rebuild erases the old primary, which may have transactions that no other server
// has, and makes it the replica of the current primary.
func (s *stage) rebuild(ctx context.Context) error {
	old := s.mysqls[1-s.primary]
	old.Kill() // a clean stop might not end, because sessions wait for a replica
	if err := old.RestartEmpty(ctx); err != nil {
		return err
	}
	s.relay.Redirect(s.mysqls[s.primary].Addr())
	return old.ReplicateFrom(ctx, s.relay.Addr())
}
