package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

type saleCommand struct {
	Create  saleCreate  `cmd:"" help:"Put units on sale."`
	Show    saleShow    `cmd:"" help:"Show one sale, or all."`
	Restock saleRestock `cmd:"" help:"Change the total of a sale. Sold units stay sold."`
	Close   saleClose   `cmd:"" help:"End a sale now. Its orders can still be paid."`
	Archive saleArchive `cmd:"" help:"Move a sale that is over to an archive database."`
}

type saleCreate struct {
	SKU           string        `arg:"" help:"SKU of the new sale: 1 to 64 characters of A-Z a-z 0-9 . _ -"`
	Name          string        `placeholder:"TEXT" help:"Title on the buyers' page. Default: the SKU."`
	Description   string        `placeholder:"TEXT" help:"Text below the title, at most 500 characters."`
	Image         string        `placeholder:"URL" help:"Picture on the buyers' page: an https URL, or a path on the server."`
	Price         int64         `required:"" placeholder:"AMOUNT" help:"Price of a unit, in minor units: 12900 for 129.00."`
	Currency      string        `default:"EUR" help:"Currency code (ISO 4217). Default ${default}."`
	Total         int64         `required:"" placeholder:"UNITS" help:"Units on sale."`
	PerBuyer      int64         `default:"1" placeholder:"UNITS" help:"Maximum units per buyer. Default ${default}."`
	OpensAt       timeFlag      `placeholder:"TIME" help:"Opening time, RFC 3339, such as 2026-11-27T09:00:00Z. Default: now."`
	For           time.Duration `default:"24h" help:"Time for which the sale is open. Default ${default}."`
	PaymentWindow time.Duration `default:"${payment_window}" help:"Time to pay before an order expires. Default ${default}."`
	ReserveOn     string        `default:"order" enum:"order,payment" help:"When an order takes its units: order (when it is placed) or payment (when it is paid). Default ${default}."`
	answerFlags   `embed:""`
}

// timeFlag is a time in the form of RFC 3339.
type timeFlag struct{ time.Time }

func (t *timeFlag) UnmarshalText(text []byte) (err error) {
	if t.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		err = fmt.Errorf("%q is not a time such as 2026-11-27T09:00:00Z", text)
	}
	return err
}

// Help shows an example.
func (saleCreate) Help() string {
	return `Example: 1,000 units at 129.00 EUR, at most two per buyer:

  flashsale sale create sneaker --price 12900 --total 1000 --per-buyer 2`
}

// Run creates a sale. If the SKU is on sale already, it returns an error and changes nothing.
func (c *saleCreate) Run(ctx context.Context, s streams) error {
	switch {
	case c.Total < 1:
		return fmt.Errorf("--total: %d, want at least 1 unit", c.Total)
	case c.PaymentWindow%time.Second != 0:
		return errors.New("--payment-window: want whole seconds")
	}
	server := c.operator()
	now := time.Now()
	known := fmt.Errorf("%s is on sale already at %s: flashsale sale restock changes its total", c.SKU, c.Target)
	switch _, at, err := server.Sale(ctx, c.SKU); {
	case err == nil:
		return known
	case api.As(err).Status != http.StatusNotFound:
		return err
	case !at.IsZero():
		now = at // the server's clock
	}
	opens := cmp.Or(c.OpensAt.Time, now).UTC()
	sale, err := server.PutSale(ctx, c.SKU, api.Terms{
		Name: cmp.Or(c.Name, c.SKU), Description: c.Description, ImageURL: c.Image, Price: c.Price, Currency: c.Currency, Total: c.Total, UnitsPerBuyer: c.PerBuyer,
		OpensAt: opens, ClosesAt: opens.Add(c.For), PaymentWindowS: int64(c.PaymentWindow / time.Second),
		ReserveOn: c.ReserveOn,
	}, "If-None-Match", "*")
	if api.As(err).Status == http.StatusPreconditionFailed { // another operator was faster
		return known
	}
	return c.printSale(s, server, sale, err)
}

type saleShow struct {
	SKU         string `arg:"" optional:"" help:"SKU of the sale. Default: one line for each sale, except those that ended more than a day ago."`
	All         bool   `help:"List also the sales that ended more than a day ago. Only an operator may list them. With --json, one object for each page."`
	answerFlags `embed:""`
}

// Run shows one sale, or the public fields of several.
func (c *saleShow) Run(ctx context.Context, s streams) error {
	server := api.New(c.Target, "")
	switch {
	case c.SKU != "" && c.All:
		return errors.New("sale show: give a SKU or --all, not both")
	case c.SKU != "":
		sale, _, err := server.Sale(ctx, c.SKU)
		if err != nil || c.JSON {
			return c.printSale(s, server, sale, err)
		}
		a, err := c.operator().Audit(ctx, c.SKU)
		sold := fmt.Sprintf("%d: %d pending, %d paid", a.Sold, a.Pending, a.Paid)
		if err != nil {
			sold = "unknown: " + err.Error()
		}
		return c.printSale(s, server, sale, nil, "sold", sold)
	}
	if c.All {
		server = c.operator()
	}
	var sales []api.Sale
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, err := server.Sales(ctx, c.All, cursor)
		if err != nil {
			return err
		}
		sales, cursor = append(sales, page...), next
		if c.JSON {
			if err := c.print(s, server, nil); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return nil
	}
	if len(sales) == 0 {
		_, err := fmt.Fprintln(s.out, "Nothing is on sale. flashsale sale create --help")
		return err
	}
	var t report.Text
	t.Row("SKU", "STATE", "AVAILABLE", "TOTAL", "OPENS", "CLOSES", "NAME")
	for _, one := range sales {
		t.Row(one.SKU, one.State, one.Available, one.Total, moment(&one.OpensAt), moment(&one.ClosesAt), client.Printable(one.Name))
	}
	return t.Write(s.out)
}

func (f *answerFlags) printSale(s streams, server *api.Client, sale api.Sale, err error, more ...string) error {
	return f.print(s, server, err, append([]string{
		"sku", sale.SKU, "name", sale.Name, "description", sale.Description, "image", sale.ImageURL, "state", sale.State,
		"available", fmt.Sprintf("%d of %d", sale.Available, sale.Total),
		"price", money(sale.Price, sale.Currency), "per buyer", fmt.Sprint(sale.UnitsPerBuyer),
		"opens", moment(&sale.OpensAt), "closes", moment(&sale.ClosesAt),
		"to pay in", (time.Duration(sale.PaymentWindowS) * time.Second).String(),
		"units taken on", sale.ReserveOn,
	}, more...)...)
}

type saleRestock struct {
	SKU         string `arg:"" help:"The sale."`
	To          *int64 `xor:"how" placeholder:"UNITS" help:"New total, sold units included. Give this or --by."`
	By          *int64 `xor:"how" placeholder:"UNITS" help:"Units to add, or with --by -N to remove. Give this or --to."`
	answerFlags `embed:""`

	pause time.Duration // 0 means restockPause
}

// Validate returns an error if neither --to nor --by is given.
func (c *saleRestock) Validate() error {
	if c.To == nil && c.By == nil {
		return errors.New("give --to UNITS, a new total, or --by UNITS to add")
	}
	return nil
}

// If the sale is changed between read and write, restock retries after one to two times
// restockPause. A node returns changes made on another node within two seconds, so the
// six pauses together are longer than that.
const (
	restockTries = 7
	restockPause = 400 * time.Millisecond
)

// Run changes the total and leaves all other fields as they are.
func (c *saleRestock) Run(ctx context.Context, s streams) error {
	server := c.operator()
	for try := 1; ; try++ {
		sale, _, err := server.Sale(ctx, c.SKU)
		if err != nil {
			return err
		}
		if c.To != nil {
			sale.Total = *c.To
		} else {
			before := sale.Total
			if sale.Total += *c.By; sale.Total < 0 {
				return fmt.Errorf("%s has %s; --by %d would leave %d", c.SKU, judge.Plural(int(before), "unit"), *c.By, sale.Total)
			}
		}
		changed, err := server.PutSale(ctx, c.SKU, sale.Sale, "If-Match", strconv.Quote(sale.Version))
		switch {
		case err == nil:
			return c.printSale(s, server, changed, nil)
		case api.As(err).Status != http.StatusPreconditionFailed:
			return err
		case try == restockTries:
			return fmt.Errorf("restock %s: the sale was changed by another client during each of %d tries: %w", c.SKU, try, err)
		}
		pause := cmp.Or(c.pause, restockPause)
		if err := client.Wait(ctx, pause+rand.N(pause)); err != nil {
			return err
		}
	}
}

type saleClose struct {
	SKU         string `arg:"" help:"The sale."`
	answerFlags `embed:""`
}

// Run ends the sale now, by the server's clock.
func (c *saleClose) Run(ctx context.Context, s streams) error {
	server := c.operator()
	sale, err := server.Close(ctx, c.SKU)
	return c.printSale(s, server, sale, err)
}
