package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"flashsale/loadtest/judge"
)

// Consumer reads the feed of changes and keeps the reports about orders of some sales. It is not
// safe for concurrent use.
type Consumer struct {
	judge.Feed
	SKUs    []string // the sales
	Cursor  string   // empty at the beginning of the feed
	Session int      // increase it when you set Cursor to an older cursor
}

// changesPerPage is the limit of a page.
const changesPerPage = 500

// Read reads the next page at a node and returns the number of its reports. If the page is empty,
// the node may hold its answer for the time wait. After an error, Read reads the same page again.
func (c *Consumer) Read(ctx context.Context, at *Operator, wait time.Duration) (n int, err error) {
	var page struct {
		Changes []judge.Change `json:"changes"`
		Next    string         `json:"next"`
	}
	prefer := ""
	if wait > 0 {
		prefer = fmt.Sprintf("wait=%.0f", wait.Seconds())
	}
	q := url.Values{"limit": {fmt.Sprint(changesPerPage)}}
	if c.Cursor != "" {
		q.Set("after", c.Cursor)
	}
	if _, err = at.Call(ctx, http.MethodGet, "/v1/admin/changes?"+q.Encode(), nil, &page, "Prefer", prefer); err != nil {
		return 0, err
	}
	if page.Next == "" || page.Next == c.Cursor && len(page.Changes) > 0 {
		return 0, fmt.Errorf("loadtest: read the feed of changes after %q: the answer has no new cursor", c.Cursor)
	}
	c.Cursor = page.Next
	for _, change := range page.Changes {
		change.Session = c.Session
		if change.Order != nil && slices.Contains(c.SKUs, change.Order.SKU) {
			c.Changes = append(c.Changes, change)
		}
	}
	return len(page.Changes), nil
}
