package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
)

// A node is this program's own serve in a process of its own, on a database of
// its own in each store, with everything on that a real one has on.
type node struct {
	l       *lab
	process *servers.Process
	metrics string // address of /metrics and pprof
	redis   *redisDB
	db      *sql.DB
	gate    *inventory.Gate // to look at, not to reserve
	token   string          // an operator's
	meter   meter
	closeDB func() error
}

// startNode starts a node with one of serve's strategies, and further flags.
func (l *lab) startNode(ctx context.Context, strategy string, flags ...string) (_ *node, err error) {
	n := &node{l: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.redis, err = l.openRedis(4); err != nil {
		return nil, err
	}
	n.gate = inventory.New(n.redis, inventory.Config{})
	var dsn string
	if n.db, dsn, n.closeDB, err = l.openMySQL(ctx); err != nil {
		return nil, err
	}
	if n.token, err = l.verifier.Sign("operator", true, 24*time.Hour); err != nil {
		return nil, err
	}
	if n.metrics, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	n.process, err = servers.StartCommand(ctx, servers.Command{
		Path: l.cfg.Program,
		Args: func(addr string) []string {
			return append([]string{
				"serve", "--addr", addr, "--metrics-addr", n.metrics, "--redis", n.redis.url, "--mysql", dsn,
				"--secret", l.secret, "--strategy", strategy, "--log-level", "WARN",
				// On, and asked for every order, but never refusing.
				"--limit-buyer", "1000000/s:1000000", "--limit-ip", "1000000/s:1000000",
				// 202s may come faster than the keeper makes them durable.
				"--queue-bound", "1000000",
			}, flags...)
		},
		Serving: func(ctx context.Context, addr string) error {
			_, err := n.get(ctx, "http://"+addr+"/readyz")
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	n.meter = meter{app: n.process.Pid(), redis: l.redis.Pid(), mysql: l.mysql.Pid()}
	return n, nil
}

func (n *node) close() error {
	var errs []error
	if n.process != nil {
		errs = append(errs, n.process.Close())
	}
	if n.redis != nil {
		errs = append(errs, n.l.closeRedis(n.redis))
	}
	if n.closeDB != nil {
		errs = append(errs, n.closeDB())
	}
	return errors.Join(errs...)
}

// logged adds the end of the node's log to an error.
func (n *node) logged(err error) error {
	if tail := n.process.LogTail(); err != nil && tail != "" {
		return fmt.Errorf("%w; the node's log ends:\n%s", err, tail)
	}
	return err
}

// get reads a page.
func (n *node) get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	return n.do(req, http.StatusOK)
}

func (n *node) do(req *http.Request, want ...int) (string, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", err
	}
	for _, status := range want {
		if res.StatusCode == status {
			return string(body), nil
		}
	}
	return "", fmt.Errorf("%s %s: %s: %s", req.Method, req.URL, res.Status, body)
}

// openSale creates a sale of prefix-000, prefix-001 and so on, and waits until
// each can be bought.
func (n *node) openSale(ctx context.Context, prefix string, skus, total int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range skus {
		g.Go(func() error { return n.putSale(ctx, fmt.Sprintf("%s-%03d", prefix, i), total) })
	}
	return g.Wait()
}

func (n *node) putSale(ctx context.Context, sku string, total int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"name":"Bench","price":1999,"currency":"EUR","total":%d,"per_buyer_limit":1000000,`+
		`"opens_at":%q,"closes_at":%q,"payment_window_s":86400}`, total,
		time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().Add(24*time.Hour).Format(time.RFC3339))
	var last error
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, n.url("/v1/admin/sales/"+sku), strings.NewReader(body))
		if err != nil {
			return false, err
		}
		req.Header.Set("Authorization", "Bearer "+n.token)
		req.Header.Set("Content-Type", "application/json")
		_, last = n.do(req, http.StatusOK, http.StatusCreated)
		return last == nil, nil // 503 means that the keeper is on its way: ask again
	})
	if err != nil {
		return fmt.Errorf("open a sale of %s: %w", sku, errors.Join(err, last))
	}
	return nil
}

func (n *node) url(path string) string { return "http://" + n.process.Addr() + path }

// answered reads how often the node has answered an order with a status and a
// problem code, "" for none.
func (n *node) answered(ctx context.Context, status int, code string) (int64, error) {
	text, err := n.get(ctx, "http://"+n.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	return counter(text, fmt.Sprintf(`flashsale_http_requests_total{code="%s",method="POST",route="/v1/orders",status="%d"}`, code, status)), nil
}

// counter finds a number in Prometheus's text format; what was never counted is 0.
func counter(text, name string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			_, _ = fmt.Sscan(rest, &v) // 0 is also what a broken line gives
			return int64(v)
		}
	}
	return 0
}

// freeAddr is a loopback address that nobody listens on at this moment.
func freeAddr(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free address: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// startHello starts the counterpart.
func (l *lab) startHello(ctx context.Context) (*servers.Process, error) {
	return servers.StartCommand(ctx, servers.Command{
		Path: l.cfg.Program,
		Args: func(addr string) []string { return []string{"bench-hello", "--addr", addr} },
		Serving: func(ctx context.Context, addr string) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err == nil {
				err = conn.Close()
			}
			return err
		},
	})
}
