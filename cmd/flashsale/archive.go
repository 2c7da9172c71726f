package main

import (
	"context"
	"fmt"
	"time"

	"flashsale/orders/store"
)

type saleArchive struct {
	SKU   string        `arg:"" help:"SKU of the sale."`
	To    string        `default:"flashsale_archive" placeholder:"DATABASE" help:"Archive database on the same server. Default ${default}."`
	After time.Duration `default:"2160h" help:"Minimum time since the last order could expire, and since the last refund of an order. An operator's change counts as a new end of the sale. A payment reported after the move finds no order. Default ${default}, 90 days."`

	databaseFlag `embed:""`

	Reported bool `help:"All consumers of the feed of changes, webhooks included, have read it to its end. Required if the feed has ever been on, because the moved orders are no longer in the feed."`
}

// Help describes the move and shows an example.
func (saleArchive) Help() string {
	return `The sale must be over. Its rows, orders and refunds move to tables of the same names in the archive
database, 1,000 orders per transaction. If the command is interrupted, run it again to continue. Two commands
at the same time share the work. Afterwards the API answers 404 for the sale and its orders.

  mysql -e "CREATE DATABASE flashsale_archive;
            GRANT CREATE, SELECT, INSERT ON flashsale_archive.* TO flashsale@'%'"
  flashsale sale archive sneaker --mysql 'flashsale:password@tcp(localhost:3306)/flashsale'`
}

// Run moves the sale and prints its progress every 20,000 orders.
func (c *saleArchive) Run(ctx context.Context, s streams) error {
	return c.open(func(st *store.Store) error { return c.move(ctx, s, st) })
}

func (c *saleArchive) move(ctx context.Context, s streams, st *store.Store) error {
	archive, err := st.OpenArchive(ctx, c.To)
	if err != nil {
		return err
	}
	archive.Reported = c.Reported
	var moved int64
	for last := false; !last; {
		step, err := archive.Step(ctx, c.SKU, c.After)
		moved, last = moved+step.Orders, step.Last
		if err != nil {
			return fmt.Errorf("%w (%d orders moved so far)", err, moved)
		}
		if moved%20_000 == 0 && !last {
			_, _ = fmt.Fprintf(s.err, "%d orders moved\n", moved)
		}
	}
	_, err = fmt.Fprintf(s.out, "%s is in %s: %d orders moved\n", c.SKU, c.To, moved)
	return err
}
