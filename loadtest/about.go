package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"flashsale/loadtest/client"
	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// lacks reports whether the shop does not have the feature.
func (c Config) lacks(f judge.Feature) bool { return slices.Contains(c.Lacks, f) }

// about reads the description of the shop, and returns c without the features that the shop lacks.
// A shop that does not describe itself is expected to keep the whole contract, except for c.Lacks.
func (c Config) about(ctx context.Context, shop *client.Operator) (Config, error) {
	about, err := shop.About(ctx)
	status := client.StatusOf(err)
	switch {
	case status/100 == 4 || status == http.StatusNotImplemented:
	case err != nil:
		return c, fmt.Errorf("read the description of the shop: %w", err)
	default:
		c.shop = &about
	}
	if len(c.Lacks) > 0 && c.shop == nil {
		c.shop = &judge.About{Name: "the shop at " + c.Target}
	}
	if c.shop == nil && c.Control != "" {
		return c, fmt.Errorf("the control %s is for a shop that answers GET /v1/about, or for which features are missing", c.Control)
	}
	if c.shop == nil {
		return c, nil
	}
	if c.Lacks, err = judge.ParseFeatures(slices.Concat(about.Lacks, c.Lacks)...); err != nil {
		return c, fmt.Errorf("read what the shop lacks: %w", err)
	}
	c.shop.Lacks = c.Lacks
	if c.shop.Emulates, err = judge.ParseFeatures(about.Emulates...); err != nil {
		return c, fmt.Errorf("read what the adapter of the shop emulates: %w", err)
	}
	if c.Control != "" {
		if c.control, err = report.ReadControl(c.Control, c.shop); err != nil {
			return c, err
		}
	}
	return c.without(), c.Validate()
}

// without returns c without orders, payments and cancellations that the shop cannot serve.
func (c Config) without() Config {
	if c.lacks(judge.Keys) {
		c.Replays = 0
	}
	if c.lacks(judge.Limit) {
		c.SecondOrders = 0
	}
	if c.lacks(judge.Cancelling) {
		c.CancelShare = 0
	}
	if c.lacks(judge.Paying) {
		c.Payments = 0
	}
	return c
}
