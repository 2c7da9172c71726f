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

// Wait is how long a node under harm waits for an order to be durable, before 202.
const Wait = time.Second

// Brief are the flags of a node under harm: what takes seconds in production
// takes as long as a lease here.
func Brief(lease, directAfter time.Duration) []string {
	return []string{
		"--lease", lease.String(), "--drain", (2 * lease).String(), "--wait", Wait.String(), "--direct-after", directAfter.String(),
	}
}

// Unlimited are the flags of a node whose limiter is asked for every order, and never
// refuses.
var Unlimited = []string{"--limit-buyer", "1000000/s:1000000", "--limit-ip", "1000000/s:1000000"}

// A Node is one `flashsale serve`, or a variant of the gallery, in a process of its
// own.
type Node struct {
	*servers.Process
	Name         string
	Redis, MySQL *wire.Wire // of its own; nil unless asked for, and MySQL's with SQLite
}

// A NodeConfig says how a node is to run.
type NodeConfig struct {
	Name         string
	Strategy     string   // how it sells, see variants.Strategies
	Redis, MySQL string   // empty: the lab's stores
	Wires        bool     // of its own, to each store
	Alive        bool     // it has started once it is alive: it need not reach both stores
	Flags        []string // of serve: a variant takes none
}

// Start starts a node, which the lab ends.
func (l *Lab) Start(ctx context.Context, c NodeConfig) (_ *Node, err error) {
	n := &Node{Name: c.Name}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", c.Name, err)
		}
	}()
	c.Redis, c.MySQL = cmp.Or(c.Redis, l.Stores.RedisURL), cmp.Or(c.MySQL, l.Stores.SQL)
	if c.Wires {
		if c.Redis, n.Redis, err = l.Before(c.Redis); err != nil {
			return nil, err
		}
		if !variants.IsSQLite(c.MySQL) {
			if c.MySQL, n.MySQL, err = l.Before(c.MySQL); err != nil {
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
	if n.Process, err = l.Command(ctx, started, args...); err != nil {
		return nil, err
	}
	l.Nodes = append(l.Nodes, n)
	return n, nil
}

// Command starts this program with further arguments, and returns once a page
// of it says 200. The caller closes it.
func (l *Lab) Command(ctx context.Context, page string, args ...string) (*servers.Process, error) {
	return servers.StartCommand(ctx, servers.Command{
		Path: l.Program,
		Args: func(addr string) []string { return append(args, "--addr", addr) },
		Serving: func(ctx context.Context, addr string) error {
			_, err := Get(ctx, "http://"+addr+page)
			return err
		},
	})
}

// URL is where the node serves.
func (n *Node) URL() string { return "http://" + n.Addr() }

// Page reads a page of a node that may be dead or paused.
func (n *Node) Page(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return Get(ctx, n.URL()+path)
}

// Metric reads one value of /metrics; what does not answer has none.
func (n *Node) Metric(ctx context.Context, name string) float64 {
	text, _ := n.Page(ctx, "/metrics")
	return Number(text, name+" ")
}

// Sum adds a metric up over the nodes.
func (l *Lab) Sum(ctx context.Context, name string) (total float64) {
	for _, n := range l.Nodes {
		total += n.Metric(ctx, name)
	}
	return total
}

// Number is what follows a label at the beginning of a line; 0 where there is none.
func Number(text, label string) (v float64) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			_, _ = fmt.Sscan(rest, &v) // 0 is also what a broken line gives
			return v
		}
	}
	return 0
}

// Get reads a page.
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

// Patience is for what must come about by itself.
const Patience = 30 * time.Second

// Until is Poll for no longer than Patience. Its error says what did not come about.
func Until(ctx context.Context, every time.Duration, what string, yes func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := Poll(ctx, every, func() (bool, error) { return yes(ctx) }); err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}

// Serve serves HTTP until ctx ends.
func Serve(ctx context.Context, at net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- server.Close() })
	if err := server.Serve(at); stop() { // it has ended by itself
		return err
	}
	return <-closed
}

// Poll asks until the answer is yes or an error, or ctx ends.
func Poll(ctx context.Context, every time.Duration, yes func() (bool, error)) error {
	for {
		if ok, err := yes(); ok || err != nil {
			return err
		}
		if err := client.Wait(ctx, every); err != nil {
			return err
		}
	}
}
