package main

import (
	"context"
	"fmt"
	"time"

	"flashsale/orders/store"
)

type saleArchive struct {
	SKU   string        `arg:""`
	MySQL string        `name:"mysql" required:"" placeholder:"DSN" help:"The same as for serve."`
	To    string        `default:"flashsale_archive" placeholder:"DATABASE" help:"Where to: another database on the same server. Default ${default}."`
	After time.Duration `default:"2160h" help:"How long the sale must have been left alone: a payment that is reported later finds no order. Default ${default}, 90 days."`
}

// Help says what it does.
func (saleArchive) Help() string {
	return `The sale, its orders and their refunds move to tables of the same names in the other database, a thousand
orders in each transaction. It can be stopped at any time: the same command goes on, and two at the same time share the work.
The sale must be over. The API then answers as if there had never been such a sale: 404.

  mysql -e 'CREATE DATABASE flashsale_archive'
  flashsale sale archive sneaker --mysql 'flashsale:password@tcp(localhost:3306)/flashsale'`
}

// Run moves the sale, and says now and then how far it has come.
func (c *saleArchive) Run(ctx context.Context, s streams) error {
	st, err := store.Open(c.MySQL, store.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	archive, err := st.OpenArchive(ctx, c.To)
	if err != nil {
		return err
	}
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
