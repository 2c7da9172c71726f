package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/orders/store"
)

type tokenCommand struct {
	Buyer  string        `placeholder:"NAME" help:"Subject of the token: 1 to 64 characters of A-Z a-z 0-9 . _ : -"`
	Admin  bool          `help:"Add the scope admin, for an operator."`
	Scope  string        `placeholder:"SCOPE" help:"Add this scope, such as the server's --pay-scope."`
	TTL    time.Duration `name:"ttl" default:"24h" help:"Lifetime of the token. Default ${default}."`
	Life   time.Duration `name:"token-life" default:"${token_life}" help:"The server's --token-life, the longest lifetime allowed. Default ${default}."`
	Secret string        `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET). Default: the built-in public secret, which only servers on embedded stores use."`
}

// Run prints one token.
func (c *tokenCommand) Run(s streams) error {
	if c.Buyer == "" {
		if !c.Admin {
			return errors.New("give --buyer NAME for a buyer's token, or --admin for an operator's")
		}
		c.Buyer = "operator"
	}
	verifier, err := signer(c.Secret, c.Life)
	if err != nil {
		return err
	}
	if c.Admin {
		c.Scope += " " + auth.ScopeAdmin
	}
	token, err := verifier.SignScope(c.Buyer, strings.TrimSpace(c.Scope), c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, token)
	return err
}

// signer returns a Verifier that signs tokens with secret for at most life. The
// defaults are the secret of a server on embedded stores and auth.DefaultLife.
func signer(secret string, life time.Duration) (*auth.Verifier, error) {
	verifier, err := auth.New(auth.Config{Secret: []byte(cmp.Or(secret, trialSecret)), Life: life})
	if err != nil {
		return nil, fmt.Errorf("--secret: %w", err)
	}
	return verifier, nil
}

type migrateCommand struct {
	databaseFlag `embed:""`
}

// Run migrates the schema, as serve does when it starts.
func (c *migrateCommand) Run(ctx context.Context, s streams) error {
	return c.open(func(st *store.Store) error {
		applied, err := st.Migrate(ctx)
		if err == nil {
			_, err = fmt.Fprintf(s.out, "migrations applied: %d\n", applied)
		}
		return err
	})
}
