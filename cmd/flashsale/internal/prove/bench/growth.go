package bench

import (
	"context"
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/prove/lab"
)

var growth = benchmark{
	name:  "growth",
	about: "CPU time of an order as orders, sales, past buyers and nodes become more; takes four minutes, and runs only by name",
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

// A size is what there is of everything that may grow.
type size struct {
	nodes, sales int // that are open, of which one is asked for
	orders       int // old ones, of other sales
	buyers       int // who have had an order of this sale
}

// The base comes first, then one size for each row.
var (
	base   = size{nodes: 1, sales: 1, orders: 1000}
	grown  = []size{base, {1, 1, 100_000, 0}, {1, 1, 1_000_000, 0}, {1, 1000, 1000, 0}, {1, 1, 0, 1_000_000}, {2, 1, 1000, 0}, {4, 1, 1000, 0}}
	bought = size{nodes: 1, sales: 1, buyers: 10_000} // what row 17d compares with
)

// runGrowth measures in turn nodes that differ in what there is of something. A
// hello is gin's constant answer in the same round: its CPU time is the unit.
func runGrowth(ctx context.Context, l *bench, rows []Row) error {
	hello, err := l.Command(ctx, "/livez", "bench-hello")
	if err != nil {
		return err
	}
	l.cleanup(hello.Close)
	var sides []measure
	for _, s := range append(grown, bought) {
		l.Say("  preparing nodes: %d, open sales: %d, old orders: %d, past buyers: %d", s.nodes, s.sales, s.orders, s.buyers)
		side, err := l.ofSize(ctx, s)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	sides = append(sides, l.greeting(hello, ""))
	samples, err := l.warmed(ctx, "req/s", sides...)
	if err != nil {
		return err
	}
	unit := cpuOf(samples[len(grown)+1])
	for i, s := range grown[1:] {
		counterpart := samples[0]
		if s.buyers > 0 {
			counterpart = samples[len(grown)]
		}
		if unit == nil {
			rows[i].Note = "CPU times are known on Linux only"
			continue
		}
		rows[i].fill(per(samples[i+1], unit), per(counterpart, unit))
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

// ofSize starts what it takes, and returns how to measure it.
func (l *bench) ofSize(ctx context.Context, s size) (measure, error) {
	n, err := l.fleet(ctx, s.nodes)
	if err != nil {
		return nil, err
	}
	sale := l.next("sale")
	if err := n.openSale(ctx, sale, s.sales, plenty); err != nil {
		return nil, err
	}
	switch {
	case s.buyers > 0:
		return func(ctx context.Context) (sample, error) { return n.sell(ctx, sale, 1, "") }, n.introduce(ctx, skusOf(sale, 1)[0], s.buyers)
	case s.orders > base.orders:
		return n.selling(""), l.hoard(ctx, n.db, "old", s.orders, "")
	}
	// So few that those of one measurement would be many more for the next.
	return func(ctx context.Context) (sample, error) {
		if _, err := n.db.ExecContext(ctx, "TRUNCATE TABLE orders"); err != nil {
			return sample{}, fmt.Errorf("empty the table of orders: %w", err)
		}
		if err := l.hoard(ctx, n.db, "old", s.orders, ""); err != nil {
			return sample{}, err
		}
		return n.selling("")(ctx)
	}, nil
}

// introduce makes so many past buyers of sku, and has the gate built anew, so that it knows
// them.
func (n *node) introduce(ctx context.Context, sku string, buyers int) error {
	if err := n.l.hoard(ctx, n.db, sku, buyers, ""); err != nil {
		return err
	}
	before, err := n.gate.Summaries(ctx, sku)
	if err == nil {
		_, err = n.db.ExecContext(ctx, "UPDATE sales SET epoch = epoch + 1 WHERE sku = ?", sku) // asks for a rebuild
	}
	if err != nil {
		return fmt.Errorf("have the gate of %s rebuilt: %w", sku, err)
	}
	return lab.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		now, err := n.gate.Summaries(ctx, sku)
		return err == nil && now[0].Open && now[0].Epoch > before[0].Epoch, err
	})
}
