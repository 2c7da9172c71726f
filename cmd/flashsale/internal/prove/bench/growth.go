package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale/cmd/flashsale/internal/prove/lab"
	"flashsale/loadtest/servers"
)

var growth = benchmark{
	name:  "growth",
	about: "CPU time of an order as orders, sales, past buyers and nodes become more; five minutes, and only by name",
	needs: wrkProgram,
	apart: true,
	rows: []Row{
		{Item: "17a", Name: "CPU time of an order, 100,000 old orders / 1,000", Unit: "hellos", Target: flat},
		{Item: "17b", Name: "CPU time of an order, 1,000,000 old orders / 1,000", Unit: "hellos", Target: flat},
		{Item: "17c", Name: "CPU time of an order, 1,000 open sales / one", Unit: "hellos", Target: flat},
		{Item: "17d", Name: "CPU time of an order, 1,000,000 past buyers of the sale / 10,000", Unit: "hellos", Target: flat},
		{Item: "17e", Name: "CPU time of an order, two nodes / one", Unit: "hellos"},
		{Item: "17f", Name: "CPU time of an order, four nodes / one", Unit: "hellos"},
	},
	run: runGrowth,
}

var flat = Target{Bound: 1.15}

// runGrowth measures in turn nodes that differ in what there is of something. A
// hello is gin's constant answer in the same round: its CPU time is the unit.
func runGrowth(ctx context.Context, l *bench, rows []Row) error {
	few, hello, err := l.besideHello(ctx, notCompared...)
	if err != nil {
		return err
	}
	sides := []measure{l.greeting(hello, ""), few.afresh()}
	for _, orders := range []int{100_000, 1_000_000} {
		n, err := l.startNode(ctx, notCompared...)
		if err == nil {
			err = l.hoard(ctx, n.db, "old", orders, "")
		}
		if err != nil {
			return err
		}
		sides = append(sides, n.selling(""))
	}
	many, err := l.startNode(ctx, notCompared...)
	if err == nil {
		l.Say("  opening 1,000 sales")
		err = many.openSale(ctx, "many", 1000, plenty)
	}
	if err != nil {
		return err
	}
	sides = append(sides, many.afresh())
	for _, buyers := range []int{1_000_000, 10_000} {
		to, err := l.known(ctx, buyers)
		if err != nil {
			return err
		}
		sides = append(sides, to)
	}
	for _, nodes := range []int{2, 4} {
		n, err := l.fleet(ctx, nodes)
		if err != nil {
			return err
		}
		sides = append(sides, n.afresh())
	}
	if err := l.warm(ctx, sides...); err != nil {
		return err
	}
	samples, err := l.alternate(ctx, "req/s", sides...)
	if err != nil {
		return err
	}
	one, unit := samples[1], cpuOf(samples[0])
	for i, of := range [][2][]sample{{samples[2], one}, {samples[3], one}, {samples[4], one}, {samples[5], samples[6]}, {samples[7], one}, {samples[8], one}} {
		if unit == nil {
			rows[i].Note = "CPU times are known on Linux only"
			continue
		}
		rows[i].fill(per(of[0], unit), per(of[1], unit))
	}
	return nil
}

// per are samples whose figure is their CPU time, by that of a unit in the same round.
func per(samples, unit []sample) []sample {
	of := cpuOf(samples)
	for i := range of {
		of[i].value /= unit[i].value
		of[i].cpu, of[i].note = samples[i].cpu, samples[i].note
	}
	return of
}

// notCompared has a node not look for the orders that afresh takes away.
var notCompared = []string{"--reconcile-holds-every", "24h"}

// afresh is selling where the node's database has 1,000 old orders and no other.
func (n *node) afresh() measure {
	return func(ctx context.Context) (sample, error) {
		if _, err := n.db.ExecContext(ctx, "TRUNCATE TABLE orders"); err != nil {
			return sample{}, fmt.Errorf("empty the table of orders: %w", err)
		}
		if err := n.l.hoard(ctx, n.db, "old", 1000, ""); err != nil {
			return sample{}, err
		}
		return n.selling("")(ctx)
	}
}

// known measures orders of one sale that so many others have bought of before, and
// that its gate knows.
func (l *bench) known(ctx context.Context, buyers int) (measure, error) {
	n, err := l.startNode(ctx, notCompared...)
	if err != nil {
		return nil, err
	}
	sale := l.next("sale")
	if err := n.openSale(ctx, sale, 1, plenty); err != nil {
		return nil, err
	}
	sku := skusOf(sale, 1)[0]
	if err := l.hoard(ctx, n.db, sku, buyers, ""); err != nil {
		return nil, err
	}
	gates, err := n.gate.Summaries(ctx, sku)
	if err == nil {
		_, err = n.db.ExecContext(ctx, "UPDATE sales SET epoch = epoch + 1 WHERE sku = ?", sku) // asks for a rebuild
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild the gate of %s: %w", sku, err)
	}
	err = lab.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		now, err := n.gate.Summaries(ctx, sku)
		return err == nil && now[0].Open && now[0].Epoch > gates[0].Epoch, err
	})
	return func(ctx context.Context) (sample, error) { return n.sell(ctx, sale, 1, "") }, err
}

// fleet starts several nodes on the same stores. It returns the first.
func (l *bench) fleet(ctx context.Context, nodes int) (*node, error) {
	n, err := l.startNode(ctx, notCompared...)
	for i := 0; i < nodes-1 && err == nil; i++ {
		var metrics string
		if metrics, err = servers.FreeAddr(ctx); err != nil {
			return nil, err
		}
		c := n.config
		c.Name, c.Flags = l.next("bench-"), append(c.Flags[:len(c.Flags):len(c.Flags)], "--metrics-addr", metrics)
		var peer *lab.Node
		if peer, err = l.Start(ctx, c); err == nil {
			l.cleanup(peer.Close)
			n.peers, n.meter[len(n.meter)-1-i] = append(n.peers, peer), peer.Pid()
		}
	}
	return n, err
}

// attack has wrk send a load to the node and its peers, each by its share of the
// connections. The counts are of all.
func (n *node) attack(ctx context.Context, o load) (all wrkResult, err error) {
	nodes := append([]*lab.Node{n.Node}, n.peers...)
	connections := n.l.cfg.Connections
	defer func() { n.l.cfg.Connections = connections }()
	n.l.cfg.Connections = max(1, connections/len(nodes))
	results := make([]wrkResult, len(nodes))
	g, ctx := errgroup.WithContext(ctx)
	for i, to := range nodes {
		g.Go(func() (err error) { results[i], err = n.l.wrk(ctx, to.Addr(), o); return err })
	}
	err = g.Wait()
	for _, r := range results {
		all.took = max(all.took, r.took)
		all.requests, all.connect, all.status = all.requests+r.requests, all.connect+r.connect, all.status+r.status
	}
	return all, err
}
