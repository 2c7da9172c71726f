package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
)

// A consumer reads the feed of changes at any node, as a program does that ships orders.
type consumer struct {
	*round
	client.Consumer
}

// consume reads the feed until ctx ends. Now and then it goes back to an older cursor, as a
// program does whose own database was restored.
func (c *consumer) consume(ctx context.Context, random *rand.Rand) {
	for old := ""; ctx.Err() == nil; {
		if n, _ := c.read(ctx, random.IntN(nodeCount), time.Second); n == 0 { // after an error, read the page again
			sleep(ctx, watchEvery)
		}
		switch random.IntN(20) {
		case 0:
			old = c.Cursor
		case 1:
			c.Cursor = old
			c.Session++
		}
	}
}

func (c *consumer) read(ctx context.Context, node int, wait time.Duration) (int, error) {
	token, _ := c.Token("consumer", true) // without a token the node refuses
	at := client.NewOperator(client.New(c.Nodes[node].URL(), "", c.http), token)
	return c.Read(ctx, &at, wait)
}

// complete reads the feed to its end and returns the rows at that time. The last changes must be
// reported within mendsWithin, also to a consumer that begins now.
func (c *consumer) complete(ctx context.Context) (rows []judge.Row, err error) {
	var why error
	later := &consumer{c.round, client.Consumer{SKUs: c.SKUs}}
	done := func(ctx context.Context) bool {
		if rows, err = c.rows(ctx); err != nil {
			return false
		}
		for _, reader := range []*consumer{c, later} {
			for n, node := 1, 0; n > 0; node++ {
				if n, why = reader.read(ctx, node%nodeCount, 0); why != nil {
					return false
				}
			}
			if untold := reader.Untold(rows); len(untold) > 0 {
				why = fmt.Errorf("of %d rows %d were not reported, such as %+v", len(rows), len(untold), untold[0])
				return false
			}
		}
		return true
	}
	if !c.within(ctx, mendsWithin, done) && why != nil {
		c.broke("untold: the feed is not complete %v after the last fault ended: %v", mendsWithin, why)
	}
	return rows, err
}
