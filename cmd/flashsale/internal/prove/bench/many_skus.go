package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
)

var manySKUs = benchmark{
	name:  "skus",
	about: "1,000 open sales on one node: connections, CPU at rest, and orders in 100 sales against one",
	needs: wrkProgram,
	rows: []Row{
		{Item: "7a", Name: "Redis connections, 1,000 open sales", Unit: "connections", Target: atMost(63)},
		{Item: "7b", Name: "CPU at rest, 1,000 open sales", Unit: "% of a core", Target: atMost(5)},
		{Item: "7c", Name: "durable orders of 100 SKUs / of one", Unit: "orders/s", Target: atLeast(0.6)},
	},
	run: runManySKUs,
}

func runManySKUs(ctx context.Context, l *bench, rows []Row) error {
	// The servers use some CPU without any sales, which is subtracted.
	servers := meter{0, l.Stores.Redis.Pid(), l.Stores.MySQL.Pid()}
	background, err := l.atRest(ctx, servers)
	if err != nil {
		return err
	}
	ours, err := l.startNode(ctx)
	if err != nil {
		return err
	}
	const sale = "many"
	l.Progressf("  opening 1,000 sales")
	if err := ours.openSale(ctx, sale, 1000, plenty); err != nil {
		return err
	}
	if _, err := ours.settle(ctx, sale, 1000); err != nil {
		return err
	}

	at, err := l.atRest(ctx, ours.meter)
	if err != nil {
		return err
	}
	rows[1].Note = "CPU times are known on Linux only"
	if at != nil && background != nil {
		redis, mysql := max(0, at[1]-background[1]), max(0, at[2]-background[2])
		rows[1].set(at[0] + redis + mysql)
		rows[1].Note = fmt.Sprintf("of it the node %s, Redis %s, MySQL %s; the servers alone use %s and %s",
			report.Figure(at[0]), report.Figure(redis), report.Figure(mysql), report.Figure(background[1]), report.Figure(background[2]))
	}

	hundred := func(ctx context.Context) (sample, error) { return ours.sell(ctx, sale, 100, "") }
	one := func(ctx context.Context) (sample, error) { return ours.sell(ctx, sale, 1, "") }
	if err := l.contest(ctx, rows[2:], hundred, one); err != nil {
		return err
	}
	// The pool has reached its full size only after the load.
	connections, err := ours.connections(ctx)
	if err != nil {
		return err
	}
	rows[0].set(float64(connections))
	return nil
}

// atRest returns the CPU use without load, in percent of a core. It returns nil if
// CPU times are not known.
func (l *bench) atRest(ctx context.Context, m meter) (cost, error) {
	seconds := float64(max(5, l.cfg.Seconds))
	stop := m.start()
	err := client.Wait(ctx, time.Duration(seconds*float64(time.Second)))
	return stop(seconds * 1e4), err // converts microseconds to percent of the time
}

// connections returns the number of the node's connections to Redis. It counts all
// connections to the node's database except this process's own.
func (n *node) connections(ctx context.Context) (int, error) {
	list, err := n.redis.ClientList(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("list the clients of Redis: %w", err)
	}
	all := strings.Count(list, fmt.Sprintf(" db=%d ", n.redis.Options().DB))
	return all - int(n.redis.PoolStats().TotalConns), nil
}
