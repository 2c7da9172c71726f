package main

import (
	"context"
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
)

type auditCommand struct {
	SKU         string        `arg:"" help:"SKU of the sale."`
	Watch       time.Duration `placeholder:"EVERY" help:"Repeat at this interval until interrupted, one line per audit: --watch 1s."`
	answerFlags `embed:""`
}

// Run prints the audit. If the units do not add up, the exit status is 1.
func (c *auditCommand) Run(ctx context.Context, s streams) error {
	balanced := true
	for {
		server := c.operator() // a new token for each audit, because --watch has no end
		a, err := server.Audit(ctx, c.SKU)
		switch {
		case err == nil:
			balanced = a.Balanced
			if c.JSON {
				_ = c.print(s, server, nil)
			} else {
				_, _ = fmt.Fprintln(s.out, lawLine(a))
			}
		case c.Watch <= 0 || server.Fault != nil:
			return err
		case ctx.Err() == nil:
			_, _ = fmt.Fprintln(s.err, err) // the server may come back
		}
		if c.Watch <= 0 || client.Wait(ctx, c.Watch) != nil {
			break
		}
	}
	if !balanced {
		return exitCode(1)
	}
	return nil
}

// lawLine formats the audit as the conservation law, on one line: the total and the terms that
// must add up to it. It ends with the mode if no gate sells.
func lawLine(a api.Audit) string {
	line := fmt.Sprintf("%s: total %d = available %d + queued %d + pending %d + paid %d + restoring %d",
		a.SKU, a.Total, a.Available, a.Queued, a.Pending, a.Paid, a.Restoring)
	if a.Direct {
		line += " (direct mode)"
	}
	if a.Balanced {
		return "ok      " + line
	}
	return fmt.Sprintf("BROKEN  %s: drift %d, oversold %d", line, a.Drift, a.Oversold)
}
