package lab

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/wire"
)

// Wait is the time after which a node of a drill answers 202 if the order is not durable.
const Wait = time.Second

// ShortTimeouts returns flags of a node that reduce durations of seconds to about one lease.
func ShortTimeouts(lease, directAfter time.Duration) []string {
	return []string{
		"--lease", lease.String(), "--drain", (2 * lease).String(), "--wait", Wait.String(), "--direct-after", directAfter.String(),
	}
}

// Unlimited are flags of a node whose limiter runs for every order and never refuses.
var Unlimited = []string{"--limit-buyer", "1000000/s:1000000", "--limit-ip", "1000000/s:1000000"}

// A Node is a process of `flashsale serve`, or of a variant of the gallery.
type Node struct {
	*servers.Process
	Name         string
	Redis, MySQL *wire.Wire // nil without NodeConfig.Wires; MySQL is also nil with SQLite
}

// A NodeConfig configures a node.
type NodeConfig struct {
	Name         string
	Strategy     string   // see variants.Strategies
	Redis, MySQL string   // URL and DSN; if empty, the lab's stores
	Wires        bool     // the node reaches each store by a wire of its own
	Alive        bool     // Start waits for /livez instead of /readyz, which needs both stores
	Flags        []string // flags of serve; a variant takes none
}

// StartNode starts a node. Close ends it.
func (l *Lab) StartNode(ctx context.Context, c NodeConfig) (_ *Node, err error) {
	n := &Node{Name: c.Name}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", c.Name, err)
		}
	}()
	c.Redis, c.MySQL = cmp.Or(c.Redis, l.Stores.RedisURL), cmp.Or(c.MySQL, l.Stores.SQL)
	if c.Wires {
		if c.Redis, n.Redis, err = l.OpenWire(c.Redis); err != nil {
			return nil, err
		}
		if !variants.IsSQLite(c.MySQL) {
			if c.MySQL, n.MySQL, err = l.OpenWire(c.MySQL); err != nil {
				return nil, err
			}
		}
	}
	started := "/readyz"
	if c.Alive {
		started = "/livez"
	}
	args := []string{"variant", c.Strategy}
	if c.Strategy == variants.Lua {
		args = append([]string{"serve", "--node", c.Name}, c.Flags...)
	}
	args = append(args, "--redis", c.Redis, "--mysql", c.MySQL, "--secret", l.secret)
	if n.Process, err = l.StartCommand(ctx, started, args...); err != nil {
		return nil, err
	}
	l.Nodes = append(l.Nodes, n)
	return n, nil
}

// StartCommand starts this program with the given arguments. It returns once the page answers
// 200. The caller closes the process.
func (l *Lab) StartCommand(ctx context.Context, page string, args ...string) (*servers.Process, error) {
	return servers.StartCommand(ctx, servers.Command{
		Path: l.Program,
		Args: func(addr string) []string { return append(args, "--addr", addr) },
		Serving: func(ctx context.Context, addr string) error {
			_, err := Get(ctx, "http://"+addr+page)
			return err
		},
	})
}

// URL returns the base URL of the node.
func (n *Node) URL() string { return "http://" + n.Addr() }

// GetPage returns a page of a node. It gives up after a second, because the node may be dead.
func (n *Node) GetPage(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Get(ctx, n.URL()+path)
}

// Metric returns one value of /metrics, or 0 if the node does not answer.
func (n *Node) Metric(ctx context.Context, name string) float64 {
	text, _ := n.GetPage(ctx, "/metrics")
	return ParseMetric(text, name+" ")
}

// SumMetric returns the sum of a metric over all nodes.
func (l *Lab) SumMetric(ctx context.Context, name string) (total float64) {
	for _, n := range l.Nodes {
		total += n.Metric(ctx, name)
	}
	return total
}

// ParseMetric returns the number after a label at the beginning of a line, or 0 if it is missing.
func ParseMetric(text, label string) (v float64) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			_, _ = fmt.Sscan(rest, &v) // v stays 0 if the line is invalid
			return v
		}
	}
	return 0
}

// Get returns a page. A status other than 200 is an error.
func Get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, res.Status, body)
	}
	return string(body), err
}

// Patience is the longest wait for a condition, also on a busy machine.
const Patience = 2 * time.Minute

// Until polls a condition for at most Patience. Its error names the condition.
func Until(ctx context.Context, every time.Duration, what string, condition func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := Poll(ctx, every, func() (bool, error) { return condition(ctx) }); err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}

// Serve serves HTTP until ctx ends.
func Serve(ctx context.Context, at net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	if err := server.Serve(at); stop() { // ctx has not ended
		return err
	}
	return <-closed
}

// Poll calls condition until it returns true or an error, or ctx ends.
func Poll(ctx context.Context, every time.Duration, condition func() (bool, error)) error {
	for {
		if ok, err := condition(); ok || err != nil {
			return err
		}
		if err := client.Wait(ctx, every); err != nil {
			return err
		}
	}
}
