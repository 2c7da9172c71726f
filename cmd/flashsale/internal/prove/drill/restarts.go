package drill

import (
	"context"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

// The drills in which a server ends and is started again.

var nodeKilled = drill{
	name:    "node-killed",
	happens: "the node that keeps the sale is killed (SIGKILL) and started again",
	sees:    "a pause of one lease at most; a retry finds the order under its key",
	never:   "a unit lost, sold twice or given back twice",
	fault: func(ctx context.Context, s *stage) error {
		n, role, err := s.victim(ctx)
		if err != nil {
			return err
		}
		return s.killed(ctx, n.Name+" killed"+role, n.Process, lease/4, lease*3/2, n.Restart, "started again")
	},
}

var nodeStopped = drill{
	name:    "node-stopped",
	happens: "the node that keeps the sale is stopped (SIGTERM) and started again, as in a deployment",
	sees:    "nothing: it hands over at once",
	never:   "an accepted order lost",
	fault: func(ctx context.Context, s *stage) error {
		n, role, err := s.victim(ctx)
		if err != nil {
			return err
		}
		s.did("%s stopped%s", n.Name, role)
		return s.started(ctx, n.Restart, "started again")
	},
}

var clockOffset = drill{
	name:    "clock-offset",
	happens: "the clocks of the nodes are off by minutes, each by its own; the keeper is stopped, one with another clock goes on",
	sees:    "nothing",
	never:   "a sale opened, closed or expired at the wrong time",
	clocks:  true,
	keeper:  true,
	fault:   nodeStopped.fault,
}

var redisEmptied = drill{
	name:    "redis-emptied",
	happens: "Redis is killed and comes back without any data",
	sees:    "503 until the gate is rebuilt from the database",
	never:   "oversell; a sold-out sale reopened",
	fault: func(ctx context.Context, s *stage) error {
		p := s.Stores.Redis.Process
		return s.killed(ctx, "Redis killed", p, 100*time.Millisecond, time.Second, p.RestartEmpty, "started again, empty")
	},
}

var mysqlRestarted = drill{
	name:    "mysql-restarted",
	happens: "MySQL is killed and started again on its data",
	sees:    "202 or 503 meanwhile, then the truth",
	never:   "a duplicate; a yes lost",
	fault: func(ctx context.Context, s *stage) error {
		p := s.Stores.MySQL.Process
		return s.killed(ctx, "MySQL killed", p, 100*time.Millisecond, time.Second, p.Restart, "started again")
	},
}

// victim is the node that keeps the sale. Where nobody does, it is the first.
func (s *stage) victim(ctx context.Context) (n *lab.Node, role string, err error) {
	if s.cfg.Strategy != variants.Lua {
		return s.Nodes[0], "", nil
	}
	n, err = s.keeper(ctx)
	return n, ", the keeper", err
}

// killed kills a server, and starts it again in some way after a drawn time.
func (s *stage) killed(ctx context.Context, said string, p *servers.Process, least, most time.Duration, start func(context.Context) error, how string) error {
	p.Kill()
	s.did("%s", said)
	s.pause(ctx, least, most)
	return s.started(ctx, start, how)
}

// started starts a server again, or promotes one, even after the drill has ended.
func (s *stage) started(ctx context.Context, start func(context.Context) error, how string) error {
	err := start(context.WithoutCancel(ctx))
	if err == nil {
		s.did("%s", how)
	}
	return err
}
