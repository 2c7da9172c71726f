package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

var manySKUs = benchmark{
	name:  "skus",
	about: "1,000 open sales on one node: connections, CPU at rest, and 100 of them under load against one",
	needs: []tool{wrkTool},
	rows: []Row{
		{Item: "7a", Name: "Redis connections, 1,000 open sales", Unit: "connections", Target: atMost(63)},
		{Item: "7b", Name: "CPU at rest, 1,000 open sales", Unit: "% of a core", Target: atMost(5)},
		{Item: "7c", Name: "durable orders of 100 SKUs / of one", Unit: "orders/s", Target: atLeast(0.7)},
	},
	run: runManySKUs,
}

func runManySKUs(ctx context.Context, l *lab, rows []Row) (err error) {
	// What the servers use by themselves is not the sales'.
	servers := meter{redis: l.redis.Pid(), mysql: l.mysql.Pid()}
	background, err := l.atRest(ctx, servers)
	if err != nil {
		return err
	}
	ours, err := l.startNode(ctx, "lua")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	const sale = "many"
	l.say("  opening 1,000 sales")
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
	if at != nil && background != nil {
		redis, mysql := max(0, *at.Redis-*background.Redis), max(0, *at.MySQL-*background.MySQL)
		rows[1].Ours = at.App + redis + mysql
		rows[1].judge()
		rows[1].Note = fmt.Sprintf("of it the node %s, Redis %s, MySQL %s; the servers alone use %s and %s",
			figure(at.App), figure(redis), figure(mysql), figure(*background.Redis), figure(*background.MySQL))
	} else {
		rows[1].Note = "CPU times are known on Linux only"
	}

	hundred := func(ctx context.Context) (sample, error) { return ours.sell(ctx, sale, 100, "", l.cfg.Seconds) }
	one := func(ctx context.Context) (sample, error) { return ours.sell(ctx, sale, 1, "", l.cfg.Seconds) }
	if err := l.warm(ctx, hundred, one); err != nil {
		return err
	}
	if err := l.compare(ctx, &rows[2], hundred, one); err != nil {
		return err
	}
	// After the load: the pool is as large as it was needed.
	connections, err := ours.connections(ctx)
	if err != nil {
		return err
	}
	rows[0].Ours = float64(connections)
	rows[0].judge()
	return nil
}

// atRest measures, while nothing is asked, percent of a core; nil where CPU
// times are not known.
func (l *lab) atRest(ctx context.Context, m meter) (*CPU, error) {
	seconds := float64(max(5, l.cfg.Seconds))
	stop := m.start()
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return stop(seconds * 1e4), nil // microseconds in the time to percent of it
}

// connections counts those of the node to Redis, by its database. This
// process's own have its name.
func (n *node) connections(ctx context.Context) (int, error) {
	list, err := n.redis.ClientList(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("list Redis's clients: %w", err)
	}
	count := 0
	for line := range strings.Lines(list) {
		if strings.Contains(line, fmt.Sprintf(" db=%d ", n.redis.number)) && !strings.Contains(line, " name="+ownName()+" ") {
			count++
		}
	}
	return count, nil
}

// ownName is what this process calls its connections to Redis.
func ownName() string { return fmt.Sprintf("flashsale-bench-%d", os.Getpid()) }
