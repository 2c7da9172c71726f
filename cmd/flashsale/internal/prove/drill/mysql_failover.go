package drill

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
)

// The drills in which a database fails over. They take longer than the others,
// and are run by name only.

var mysqlFailover = drill{
	name: "mysql-failover",
	happens: "MySQL's primary is killed while its last transactions have not reached the replica, which is promoted; " +
		"the old primary is rebuilt as its replica",
	sees:    "202 or 503 until the failover is done, then the truth",
	never:   "a yes lost; oversell; two orders under one key",
	standby: true,
	fault: func(ctx context.Context, s *stage) error {
		lag := s.lag(ctx)
		s.Stores.MySQL.Kill()
		s.did("primary killed")
		if err := errors.Join(lag, s.promoteStandby(ctx)); err != nil {
			return err
		}
		s.lead(s.Nodes...)
		return s.rebuildPrimary(ctx)
	},
}

var mysqlPaused = drill{
	name: "mysql-paused",
	happens: "MySQL's primary is paused (SIGSTOP) and its replica promoted; the old primary goes on, " +
		"and one node still talks to it",
	sees:    "202 or 503, also from the node that was left behind, then the truth",
	never:   "a yes for what only the old primary has; oversell; two orders under one key",
	standby: true,
	keeper:  true,
	fault: func(ctx context.Context, s *stage) error {
		left, old := s.Nodes[s.random.IntN(len(s.Nodes))], s.Stores.MySQL
		if err := old.Pause(); err != nil {
			return err
		}
		s.did("primary paused")
		s.replicaWire.Cut() // a replica that leaves in good order asks the paused primary, and waits
		err := s.promoteStandby(ctx)
		ctx = context.WithoutCancel(ctx)
		has, askErr := s.standbyDB.Transactions(ctx)
		if err := errors.Join(err, askErr, old.Resume()); err != nil {
			return err
		}
		s.did("old primary goes on, %s left behind", left.Name)
		s.lead(slices.DeleteFunc(slices.Clone(s.Nodes), func(n *lab.Node) bool { return n == left })...)
		s.writeToOld(ctx)
		s.lead(left)
		now, err := old.Transactions(ctx)
		s.did("%s led to the new primary, the old one has %d transactions that nobody else has", left.Name, now-has)
		return errors.Join(err, s.rebuildPrimary(ctx))
	},
}

// writeToOld asks the old primary for a write, beside the node that is left
// behind, and waits for an answer that must not come.
func (s *stage) writeToOld(ctx context.Context) {
	within := s.between(lease/2, lease)
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := s.mysql.ExecContext(asking, "INSERT INTO nodes (id, seen_at) VALUES ('left-behind', '2000-01-01')"); err == nil {
		s.broke("the old primary confirmed a write that nobody else has")
		_ = client.Wait(asking, within)
	}
}

// openStandby starts a replica of the database, which follows by a wire of its own.
func (s *stage) openStandby(ctx context.Context) (err error) {
	if s.standbyDB, err = s.StartMySQL(ctx, "mysql-replica", servers.MySQLOptions{ExtraArgs: []string{servers.LogReplicated}}); err != nil {
		return err
	}
	var via string
	if via, s.replicaWire, err = s.Before(s.Stores.MySQL.Addr()); err != nil {
		return err
	}
	return s.follow(ctx, s.standbyDB, s.Stores.MySQL, via)
}

// follow has one MySQL copy another, which from then on waits for it.
func (s *stage) follow(ctx context.Context, replica, primary *servers.MySQL, via string) error {
	if err := replica.Follow(ctx, via); err != nil {
		return err
	}
	err := s.until(ctx, "the replica has caught up", func(ctx context.Context) bool {
		behind, err := behind(ctx, primary, replica)
		return err == nil && behind == 0
	})
	if err != nil || s.cfg.Asynchronous {
		return err
	}
	return primary.Lossless(ctx)
}

// behind is how many transactions a replica lacks.
func behind(ctx context.Context, primary, replica *servers.MySQL) (int64, error) {
	ahead, err := primary.Transactions(ctx)
	if err != nil {
		return 0, err
	}
	has, err := replica.Transactions(ctx)
	return ahead - has, err
}

// lag cuts the replica off from its primary, and waits until it lacks something.
func (s *stage) lag(ctx context.Context) error {
	s.replicaWire.Cut()
	s.pause(ctx, 50*time.Millisecond, 300*time.Millisecond)
	missing := int64(0)
	err := s.until(ctx, "transactions miss the replica", func(ctx context.Context) bool {
		missing, _ = behind(ctx, s.Stores.MySQL, s.standbyDB)
		return missing > 0
	})
	s.did("the last %d transactions do not reach the replica", missing)
	return err
}

// promoteStandby promotes the replica after a while, even after ctx has ended.
func (s *stage) promoteStandby(ctx context.Context) error {
	s.pause(ctx, 100*time.Millisecond, time.Second)
	return s.started(ctx, s.standbyDB.Promote, "replica promoted")
}

// lead ends these nodes' sessions with the old primary and leads them to the new one.
func (s *stage) lead(nodes ...*lab.Node) {
	for _, n := range nodes {
		n.MySQL.Lead(s.standbyDB.Addr())
	}
}

// rebuildPrimary throws away what the old primary has, which may be transactions
// that nobody else has, and makes it the replica of the new one. That one sold
// alone until then.
func (s *stage) rebuildPrimary(ctx context.Context) error {
	old := s.Stores.MySQL
	old.Kill() // in good order it may not end: sessions wait for a replica
	if err := s.started(ctx, old.RestartEmpty, "old primary started again, empty"); err != nil {
		return err
	}
	return s.started(ctx, func(ctx context.Context) error { return s.follow(ctx, old, s.standbyDB, s.standbyDB.Addr()) }, "it has all as a replica")
}
