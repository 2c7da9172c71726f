package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
)

type changesCommand struct {
	Follow      bool   `help:"Wait for further changes until interrupted. If the server is unavailable, try again."`
	After       string `placeholder:"CURSOR" help:"Begin after this cursor, which an earlier call printed. Default: begin with the oldest change."`
	serverFlags `embed:""`
}

// Help describes the output.
func (changesCommand) Help() string {
	return `Prints one line of JSON per change: the current state of an order, or of a sale that an operator
has changed. A change is a state and not a step: an order that changed twice is printed once. The
cursor for --after is printed to standard error at the end. Needs a server with --changes. Examples:

  flashsale changes --follow | jq -c '[.no, .order.status, .order.id]'
  flashsale changes --after CURSOR`
}

// pageSize is the number of changes per request, and pageWait the time for which the server may hold
// an empty page.
const pageSize, pageWait = 1000, 20 * time.Second

// Run prints the changes up to now and, with --follow, those to come.
func (c *changesCommand) Run(ctx context.Context, s streams) error {
	heading := sync.OnceFunc(func() { _, _ = fmt.Fprintln(s.err, "each line is the current state of an order or a sale") })
	next, end, retry := c.After, "", false
	defer func() { _, _ = fmt.Fprint(s.err, end) }()
	for {
		wait := time.Duration(0)
		if c.Follow {
			wait = pageWait
		}
		// A new token for each page, because --follow has no end.
		began := time.Now()
		page, err := c.as("operator", true).Changes(ctx, next, pageSize, wait)
		switch {
		case err == nil:
			heading()
			retry = false
		case ctx.Err() != nil:
			return nil
		case !c.Follow || api.As(err).Status != 0 && api.As(err).Status < 500:
			return err
		default:
			if !retry { // once per outage
				_, _ = fmt.Fprintln(s.err, err, "(trying again)")
			}
			if retry = true; client.Wait(ctx, time.Second) != nil {
				return nil
			}
			continue
		}
		for _, change := range page.Changes {
			if _, err := fmt.Fprintf(s.out, "%s\n", change); err != nil {
				return err
			}
		}
		next, end = page.Next, fmt.Sprintln("next cursor:", page.Next)
		if ctx.Err() != nil || !c.Follow && len(page.Changes) < pageSize {
			return nil
		}
		if len(page.Changes) == 0 && time.Since(began) < time.Second { // too many readers wait at the server
			_ = client.Wait(ctx, time.Second)
		}
	}
}
