package bench

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/inventory"
	"flashsale/loadtest/client"
	"flashsale/loadtest/servers"
)

// A node is a process of this project or of a variant of the gallery. It uses a
// database of its own in each store, and all features that are on in production.
type node struct {
	*lab.Node
	l       *bench
	metrics string // address of /metrics and pprof; a variant has none
	redis   *redis.Client
	db      *sql.DB
	gate    *inventory.Gate // used only to read
	meter   meter
}

// startNode starts a node of this project with additional flags.
func (l *bench) startNode(ctx context.Context, flags ...string) (*node, error) {
	metrics, err := servers.FreeAddr(ctx)
	if err != nil {
		return nil, err
	}
	return l.start(ctx, metrics, lab.NodeConfig{Strategy: variants.Lua, Flags: slices.Concat(lab.Unlimited, []string{
		"--metrics-addr", metrics, "--log-level", "WARN",
		// The node may answer 202 faster than the keeper stores the orders.
		"--queue-limit", "1000000",
	}, flags)})
}

func (l *bench) start(ctx context.Context, metrics string, c lab.NodeConfig) (_ *node, err error) {
	n := &node{l: l, metrics: metrics, redis: l.openRedis(4)}
	n.gate = inventory.New(n.redis, inventory.Config{})
	if n.db, c.MySQL, err = l.openMySQL(ctx); err != nil {
		return nil, err
	}
	c.Name, c.Redis = l.next("bench-"), fmt.Sprintf("redis://%s/%d", l.Stores.Redis.Addr(), n.redis.Options().DB)
	if n.Node, err = l.StartNode(ctx, c); err != nil {
		return nil, err
	}
	l.cleanup(n.Close)
	n.meter = meter{n.Pid(), l.Stores.Redis.Pid(), l.Stores.MySQL.Pid()}
	return n, nil
}

// startWithHello starts a node and the gin counterpart.
func (l *bench) startWithHello(ctx context.Context) (ours *node, hello *servers.Process, err error) {
	if ours, err = l.startNode(ctx); err != nil {
		return nil, nil, err
	}
	if hello, err = l.StartCommand(ctx, "/livez", "bench-hello"); err == nil {
		l.cleanup(hello.Close)
	}
	return ours, hello, err
}

// openSale opens the sales prefix-000, prefix-001 and so on, and waits until each
// sells.
func (n *node) openSale(ctx context.Context, prefix string, skus, total int) error {
	token, err := n.l.Token("operator", true)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, sku := range skusOf(prefix, skus) {
		g.Go(func() error {
			operator := client.NewOperator(client.New(n.URL(), sku, http.DefaultClient), token)
			return operator.Open(ctx, client.Sale{
				Name: "Bench", Price: 1999, Currency: "EUR", Total: int64(total), UnitsPerBuyer: 1_000_000, PaymentWindowS: 86_400,
			}, lab.Patience)
		})
	}
	return g.Wait()
}

// growth returns by how much a count grows while do runs.
func growth(do func() error, count func() (float64, error)) (float64, error) {
	before, err := count()
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := count()
	return after - before, err
}

// answered returns how often the node has answered an order with this status and
// problem code, which is "" for a success. A variant has no metrics and returns 0.
func (n *node) answered(ctx context.Context, status int, code string) (float64, error) {
	if n.metrics == "" {
		return 0, nil
	}
	text, err := lab.Get(ctx, "http://"+n.metrics+"/metrics")
	series := fmt.Sprintf(`flashsale_http_requests_total{code="%s",method="POST",route="/v1/orders",status="%d"} `, code, status)
	return lab.ParseMetric(text, series), err
}

// answeredDuring returns the growth of answered while do runs.
func (n *node) answeredDuring(ctx context.Context, status int, code string, do func() error) (int64, error) {
	times, err := growth(do, func() (float64, error) { return n.answered(ctx, status, code) })
	return int64(times), err
}
