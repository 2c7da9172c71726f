package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is the name under which the sentinel knows the master.
const SentinelMaster = "flashsale"

// RedisSentinel is a private master with one replica, and a sentinel that makes
// the replica the master when the master is gone.
type RedisSentinel struct {
	Master, Replica *Redis // as they were started
	Sentinel        *Process
	URL             string // redis+sentinel://127.0.0.1:port/flashsale/0

	sentinel *redis.SentinelClient
}

// StartRedisSentinel starts all three and returns when the sentinel would find
// the replica good enough to take over.
func StartRedisSentinel(ctx context.Context) (_ *RedisSentinel, err error) {
	s := &RedisSentinel{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("servers: start a Redis with Sentinel: %w", err), s.Close())
		}
	}()
	if s.Master, err = StartRedis(ctx, RedisOptions{ExtraArgs: []string{"--repl-diskless-sync-delay", "0"}}); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.Master.Addr())
	if err != nil {
		return nil, err
	}
	if err := s.allow(ctx, true); err != nil {
		return nil, err
	}
	if s.Replica, err = StartRedis(ctx, RedisOptions{ExtraArgs: []string{
		"--replicaof", host, port, "--masteruser", replicator, "--masterauth", replicator,
	}}); err != nil {
		return nil, err
	}
	if err := await(ctx, "the replica follows", func() error { return follows(ctx, s.Replica.Addr()) }); err != nil {
		return nil, err
	}
	if s.Sentinel, err = startSentinel(ctx, host, port); err != nil {
		return nil, err
	}
	s.URL = "redis+sentinel://" + s.Sentinel.Addr() + "/" + SentinelMaster + "/0"
	s.sentinel = redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr()})
	return s, await(ctx, "the sentinel knows the replica", func() error {
		replicas, err := s.sentinel.Replicas(ctx, SentinelMaster).Result()
		if err != nil {
			return err
		}
		if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("it knows %v", replicas)
		}
		return nil
	})
}

// startSentinel starts a sentinel that watches the master at host and port. A
// busy machine may keep a server from answering for seconds, and is to change
// nothing: Failover doesn't wait for the sentinel to see that the master is gone.
func startSentinel(ctx context.Context, host, port string) (*Process, error) {
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
			if err := os.Mkdir(p.data, 0o700); err != nil {
				return err
			}
			return os.WriteFile(config(p), fmt.Appendf(nil, `dir %s
sentinel monitor %s %s %s 1
sentinel down-after-milliseconds %s 20000
sentinel failover-timeout %s 20000
`, p.data, SentinelMaster, host, port, SentinelMaster, SentinelMaster), 0o600)
		},
		serving: func(ctx context.Context, p *Process, pid int) error {
			_, err := askRedis(ctx, p.Addr(), pid)
			return err
		},
	})
}

// replicator is whom the master lets replicate, and the password.
const replicator = "replicator"

func (s *RedisSentinel) allow(ctx context.Context, replicate bool) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Master.Addr()})
	defer rdb.Close()
	if replicate {
		return rdb.Do(ctx, "ACL", "SETUSER", replicator, "on", ">"+replicator, "+psync", "+replconf", "+ping").Err()
	}
	return rdb.Do(ctx, "ACL", "SETUSER", replicator, "reset").Err() // and ends its connections
}

// Replicated waits until the replica has heard all that was written.
func (s *RedisSentinel) Replicated(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Master.Addr()})
	defer rdb.Close()
	return await(ctx, "the replica has all", func() error {
		info, err := rdb.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		var offset, heard string
		for line := range strings.Lines(info) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
			case "master_repl_offset":
				offset = value
			case "slave0": // ip=…,port=…,state=online,offset=…,lag=…
				_, value, _ = strings.Cut(value, "offset=")
				heard, _, _ = strings.Cut(value, ",")
			}
		}
		if offset == "" || offset != heard {
			return fmt.Errorf("at %q of %q", heard, offset)
		}
		return nil
	})
}

// Detach has the replica hear nothing more of the master: what is written from
// now on is lost in a Failover.
func (s *RedisSentinel) Detach(ctx context.Context) error {
	if err := s.allow(ctx, false); err != nil {
		return fmt.Errorf("servers: detach the replica: %w", err)
	}
	return await(ctx, "the replica has lost its master", func() error {
		if follows(ctx, s.Replica.Addr()) == nil {
			return errors.New("it still follows")
		}
		return nil
	})
}

// Failover kills the master, and returns when the replica is the master and the
// sentinel says so.
func (s *RedisSentinel) Failover(ctx context.Context) error {
	s.Master.Kill()
	if err := await(ctx, "the replica takes over", func() error {
		addr, err := s.sentinel.GetMasterAddrByName(ctx, SentinelMaster).Result()
		if err == nil && net.JoinHostPort(addr[0], addr[1]) == s.Replica.Addr() {
			return isMaster(ctx, s.Replica.Addr())
		}
		// Refused while one is under way, or the replica is not good enough yet.
		if failErr := s.sentinel.Failover(ctx, SentinelMaster).Err(); err == nil {
			err = failErr
		}
		if err == nil {
			err = errors.New("not yet")
		}
		return err
	}); err != nil {
		return fmt.Errorf("servers: fail over: %w", err)
	}
	return nil
}

func follows(ctx context.Context, addr string) error {
	return role(ctx, addr, "master_link_status:up")
}

func isMaster(ctx context.Context, addr string) error { return role(ctx, addr, "role:master") }

// role fails unless the server says this of its replication.
func role(ctx context.Context, addr, want string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	info, err := rdb.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, want) {
		err = fmt.Errorf("%s says: %s", addr, info)
	}
	return err
}

// await asks until the answer is nil.
func await(ctx context.Context, what string, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
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
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		}
	}
}

// Close stops all three. It is safe to call it again.
func (s *RedisSentinel) Close() error {
	var errs []error
	if s.sentinel != nil {
		errs = append(errs, s.sentinel.Close())
		s.sentinel = nil
	}
	if s.Sentinel != nil {
		errs = append(errs, s.Sentinel.Close())
	}
	for _, r := range []*Redis{s.Replica, s.Master} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}
