package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/auth"
	"flashsale/orders"
)

type tokenCommand struct {
	Buyer  string        `placeholder:"NAME" help:"Who the token is for: 1 to 64 characters of A-Z a-z 0-9 . _ : -"`
	Admin  bool          `help:"With the scope admin, for an operator."`
	TTL    time.Duration `name:"ttl" default:"24h" help:"How long it is valid. Default ${default}."`
	Secret string        `placeholder:"TEXT" help:"The server's secret. Default: that of a server on embedded stores."`
}

// Run prints one token.
func (c *tokenCommand) Run(s streams) error {
	if c.Buyer == "" {
		if !c.Admin {
			return errors.New("--buyer NAME says who the token is for (or --admin for an operator's)")
		}
		c.Buyer = "operator"
	}
	if c.Secret == "" {
		c.Secret = trialSecret
	}
	verifier, err := auth.New([]byte(c.Secret), nil)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	token, err := verifier.Sign(c.Buyer, c.Admin, c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, token)
	return err
}

type migrateCommand struct {
	MySQL string `name:"mysql" required:"" placeholder:"DSN" help:"The database, such as user:password@tcp(localhost:3306)/flashsale."`
}

// Run migrates. serve does the same when it starts.
func (c *migrateCommand) Run(ctx context.Context, s streams) error {
	store, err := orders.Open(c.MySQL, orders.StoreConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	applied, err := store.Migrate(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "migrations applied: %d\n", applied)
	return err
}
