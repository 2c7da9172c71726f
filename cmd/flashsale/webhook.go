package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
	"flashsale/orders/feed/webhooks"
	"flashsale/orders/store"
)

type webhookCommand struct {
	Secret webhookSecret `cmd:"" help:"Print the secret with which the receiver of a webhook verifies signatures."`
	List   webhookList   `cmd:"" help:"Show how far each webhook has delivered, and its last error."`
	Resume webhookResume `cmd:"" help:"Make a webhook that is failing or stopped continue at once."`
}

type webhookSecret struct {
	Name   string `arg:"" help:"Name of the webhook, as in serve --webhook."`
	Secret string `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET). Default: the built-in public secret, which only servers on embedded stores use."`
}

// Run prints the secret in the form of Standard Webhooks.
func (c *webhookSecret) Run(s streams) error {
	if _, err := signer(c.Secret, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.out, webhooks.Secret([]byte(cmp.Or(c.Secret, trialSecret)), c.Name))
	return err
}

type databaseFlag struct {
	MySQL string `name:"mysql" required:"" placeholder:"DSN" help:"Data source name of the database, such as user:password@tcp(localhost:3306)/flashsale."`
}

// open calls do with the store of the database.
func (f *databaseFlag) open(do func(*store.Store) error) error {
	st, err := store.Open(f.MySQL, store.Config{})
	if err != nil {
		return fmt.Errorf("--mysql: %w", err)
	}
	defer func() { _ = st.Close() }()
	return do(st)
}

type webhookList struct {
	databaseFlag `embed:""`
}

// Run prints one line for each webhook that a node has been started with.
func (c *webhookList) Run(ctx context.Context, s streams) error {
	return c.open(func(st *store.Store) error {
		rows, err := st.Webhooks(ctx)
		if err != nil {
			return err
		}
		var t report.Text
		t.Row("NAME", "STATE", "FAILURES", "OLDEST UNDELIVERED", "LAST ERROR")
		for _, w := range rows {
			state := "up"
			if w.Stopped {
				state = "stopped"
			} else if w.Failures > 0 {
				state = "failing"
			}
			changes, _, err := st.Changes(ctx, w.Position, 1)
			if err != nil { // the cursor of another installation or of a backup, for example
				state, w.LastError = "failing", err.Error()
			}
			var oldest time.Time
			if len(changes) > 0 {
				oldest = time.UnixMilli(changes[0].No)
			}
			t.Row(w.Name, state, w.Failures, moment(&oldest), client.Printable(w.LastError))
		}
		return t.Write(s.out)
	})
}

type webhookResume struct {
	Name         string  `arg:"" help:"Name of the webhook."`
	After        *string `placeholder:"CURSOR" help:"Continue after this cursor of the feed; with --after= at the beginning of the feed. Default: the first change that is not delivered."`
	databaseFlag `embed:""`
}

// Run changes the row of the webhook, which the nodes read every few seconds.
func (c *webhookResume) Run(ctx context.Context, s streams) error {
	return c.open(func(st *store.Store) error {
		err := st.ResumeWebhook(ctx, c.Name, c.After)
		if err == nil {
			_, err = fmt.Fprintf(s.out, "%s continues within seconds\n", c.Name)
		}
		return err
	})
}
