package drill

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"flashsale/loadtest/servers"
)

// A node is one `flashsale serve` in a process of its own.
type node struct {
	*servers.Process
	name string

	redisWire, mysqlWire *wire // nil unless asked for
}

func (n *node) cutWires() {
	for _, w := range []*wire{n.redisWire, n.mysqlWire} {
		if w != nil {
			w.close()
		}
	}
}

func (s *stage) startNode(ctx context.Context, name string) (_ *node, err error) {
	n := &node{name: name}
	defer func() {
		if err != nil {
			n.cutWires()
		}
	}()
	redis, mysql := s.stores.RedisURL, s.stores.SQL
	if s.redisLink != nil {
		redis = strings.Replace(redis, s.stores.Redis.Addr(), s.redisLink.Addr(), 1)
	}
	if s.mysqlLink != nil {
		mysql = strings.Replace(mysql, s.stores.MySQL.Addr(), s.mysqlLink.Addr(), 1)
	}
	if s.wires {
		if n.redisWire, err = openWire(s.stores.Redis.Addr()); err != nil {
			return nil, err
		}
		if n.mysqlWire, err = openWire(s.stores.MySQL.Addr()); err != nil {
			return nil, err
		}
		redis = strings.Replace(redis, s.stores.Redis.Addr(), n.redisWire.addr(), 1)
		mysql = strings.Replace(mysql, s.stores.MySQL.Addr(), n.mysqlWire.addr(), 1)
	}
	args := []string{
		"serve", "--node", name, "--redis", redis, "--mysql", mysql, "--secret", s.secret, "--strategy", s.cfg.Strategy,
		"--lease", lease.String(), "--wait", wait.String(), "--drain", (2 * lease).String(),
		"--direct-after", directAfter.String(),
		"--trusted-proxies", "127.0.0.1", // each buyer of the attack comes from an address of its own
	}
	args = append(args, s.nodeArgs...)
	if s.clocks {
		// Never right, and never by the same amount twice.
		off := s.between(time.Minute, 10*time.Minute).Round(time.Second)
		if s.random.IntN(2) == 0 {
			off = -off
		}
		args = append(args, "--clock-off="+off.String())
		s.deeds = append(s.deeds, fmt.Sprintf("%s's clock is off by %v", name, off))
	}
	n.Process, err = servers.StartCommand(ctx, servers.Command{
		Path: s.cfg.Program,
		Args: func(addr string) []string { return append(args, "--addr", addr) },
		Serving: func(ctx context.Context, addr string) error {
			_, err := get(ctx, "http://"+addr+"/readyz")
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return n, nil
}

// keeper is the node that keeps the sale, other than one that can't be asked
// any more.
func (s *stage) keeper(ctx context.Context, gone ...*node) (keeper *node, err error) {
	err = s.until(ctx, "a node keeps the sale", func(ctx context.Context) bool {
		for _, n := range s.nodes {
			if !slices.Contains(gone, n) && n.metric(ctx, "flashsale_keeper_skus") == 1 {
				keeper = n
				return true
			}
		}
		return false
	})
	return keeper, err
}

// sum adds a metric up over the nodes.
func (s *stage) sum(ctx context.Context, name string) (total float64) {
	for _, n := range s.nodes {
		total += n.metric(ctx, name)
	}
	return total
}

// metric reads one value of /metrics; what does not answer has none.
func (n *node) metric(ctx context.Context, name string) (v float64) {
	text, err := get(ctx, "http://"+n.Addr()+"/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			_, _ = fmt.Sscan(value, &v) // 0 is also what a broken line gives
		}
	}
	return v
}

// get reads a page of a node that may be dead or paused.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	return do(req)
}

func do(req *http.Request) (string, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", req.Method, req.URL.Path, res.Status)
	}
	return string(body), err
}
