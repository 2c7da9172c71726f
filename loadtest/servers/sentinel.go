package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is the name of the master in the sentinel.
const SentinelMaster = "flashsale"

// RedisSentinel is a private master with one replica and a sentinel. If the master is
// gone, the sentinel promotes the replica.
type RedisSentinel struct {
	Master, Replica *Redis // their roles at the start
	Sentinel        *Process
	URL             string // redis+sentinel://127.0.0.1:port/flashsale/0

	sentinel *redis.SentinelClient
	closers
}

// StartRedisSentinel starts all three. It returns when the sentinel could promote the
// replica.
func StartRedisSentinel(ctx context.Context) (_ *RedisSentinel, err error) {
	s := &RedisSentinel{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("servers: start a Redis with Sentinel: %w", err), s.Close())
		}
	}()
	if s.Master, err = StartRedis(ctx, RedisConfig{ExtraArgs: []string{"--repl-diskless-sync-delay", "0"}}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.Master.Close)
	if err := s.Master.allow(ctx, true); err != nil {
		return nil, err
	}
	if s.Replica, err = StartRedis(ctx, RedisConfig{ExtraArgs: append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(s.Master.port)}, asReplicator...)}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.Replica.Close)
	if err := await(ctx, "wait for the replica to follow", func() error { return replicates(ctx, s.Replica.Addr(), "master_link_status", "up") }); err != nil {
		return nil, err
	}
	if s.Sentinel, err = startSentinel(ctx, s.Master.port); err != nil {
		return nil, err
	}
	s.URL = "redis+sentinel://" + s.Sentinel.Addr() + "/" + SentinelMaster + "/0"
	s.sentinel = redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr()})
	s.closers = append(s.closers, s.Sentinel.Close, s.sentinel.Close)
	return s, await(ctx, "wait for the sentinel to find the replica", func() error {
		replicas, err := s.sentinel.Replicas(ctx, SentinelMaster).Result()
		if err != nil {
			return err
		}
		if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("the sentinel reports the replicas %v, want one that is linked to its master", replicas)
		}
		return nil
	})
}

// startSentinel starts a sentinel that watches the master at this port. The sentinel
// reacts only after 20 seconds, because a server on a busy machine may not answer for
// seconds. Failover does not wait for the sentinel.
func startSentinel(ctx context.Context, port int) (*Process, error) {
	path, err := findRedis(nil)
	if err != nil {
		return nil, err
	}
	config := func(p *Process) string { return filepath.Join(p.data, "sentinel.conf") }
	return startProcess(ctx, program{
		name: "redis-sentinel",
		path: path,
		args: func(p *Process) []string {
			return []string{config(p), "--sentinel", "--bind", "127.0.0.1", "--port", fmt.Sprint(p.port)}
		},
		initialise: func(_ context.Context, p *Process) error {
			return os.WriteFile(config(p), fmt.Appendf(nil, `dir %s
sentinel monitor %s 127.0.0.1 %d 1
sentinel down-after-milliseconds %s 20000
sentinel failover-timeout %s 20000
`, p.data, SentinelMaster, port, SentinelMaster, SentinelMaster), 0o600)
		},
		serving: askRedis,
	})
}

// replicator is the name and the password of the user for replication.
const replicator = "replicator"

// asReplicator contains the options of a server that may become a replica.
var asReplicator = []string{"--masteruser", replicator, "--masterauth", replicator}

// allow lets replicas follow this master. If replicate is false, it ends their
// connections and refuses new ones.
func (r *Redis) allow(ctx context.Context, replicate bool) error {
	if replicate {
		return r.do(ctx, "ACL", "SETUSER", replicator, "on", ">"+replicator, "+psync", "+replconf", "+ping").Err()
	}
	return r.do(ctx, "ACL", "SETUSER", replicator, "reset").Err()
}

// WaitReplicated waits until the only replica has received all writes to r.
func (r *Redis) WaitReplicated(ctx context.Context) error {
	return await(ctx, "wait for the replica to catch up", func() error {
		info, err := replication(ctx, r.Addr())
		// slave0 is ip=…,port=…,state=online,offset=…,lag=…
		if at := info["master_repl_offset"]; err == nil && !strings.Contains(info["slave0"], ",offset="+at+",") {
			err = fmt.Errorf("the master is at offset %q, and the replica at %q", at, info["slave0"])
		}
		return err
	})
}

// DetachReplica disconnects the replica from r. Later writes to r are lost in a failover.
func (r *Redis) DetachReplica(ctx context.Context, replica *Redis) error {
	if err := r.allow(ctx, false); err != nil {
		return fmt.Errorf("servers: detach the replica: %w", err)
	}
	return await(ctx, "wait for the replica to lose its master", func() error {
		if replicates(ctx, replica.Addr(), "master_link_status", "up") == nil {
			return errors.New("the replica still follows its master")
		}
		return nil
	})
}

// WaitReplicated waits until the replica has received all writes.
func (s *RedisSentinel) WaitReplicated(ctx context.Context) error {
	return s.Master.WaitReplicated(ctx)
}

// DetachReplica disconnects the replica from the master. Later writes are lost in a Failover.
func (s *RedisSentinel) DetachReplica(ctx context.Context) error {
	return s.Master.DetachReplica(ctx, s.Replica)
}

// Failover kills the master. It returns when the replica is the master, also for the
// sentinel.
func (s *RedisSentinel) Failover(ctx context.Context) error {
	s.Master.Kill()
	return await(ctx, "servers: fail over to the replica", func() error {
		addr, err := s.sentinel.GetMasterAddrByName(ctx, SentinelMaster).Result()
		if err == nil && net.JoinHostPort(addr[0], addr[1]) == s.Replica.Addr() {
			return replicates(ctx, s.Replica.Addr(), "role", "master")
		}
		// This fails while a failover is in progress or the replica is not ready.
		if failErr := s.sentinel.Failover(ctx, SentinelMaster).Err(); err == nil {
			err = failErr
		}
		if err == nil {
			err = errors.New("the sentinel still reports the old master")
		}
		return err
	})
}

// replication returns the replication section of INFO.
func replication(ctx context.Context, addr string) (map[string]string, error) {
	rdb := connect(addr)
	defer rdb.Close()
	info, err := rdb.InfoMap(ctx, "replication").Result()
	return info["Replication"], err
}

// replicates returns an error unless the field of the replication section has this
// value.
func replicates(ctx context.Context, addr, field, want string) error {
	info, err := replication(ctx, addr)
	if err == nil && info[field] != want {
		err = fmt.Errorf("the server at %s reports %v, want %s %s", addr, info, field, want)
	}
	return err
}

// await calls ask until it returns nil or ctx is done.
func await(ctx context.Context, what string, ask func() error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: gave up: %w: %w", what, ctx.Err(), err)
		}
	}
}
