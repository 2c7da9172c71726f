package main

import (
	"context"
	"fmt"

	"flashsale/cmd/flashsale/internal/prove/gallery"
)

// variantCommand runs one node of a variant of the gallery, for drills and benchmarks.
type variantCommand struct {
	Name   string `arg:""`
	Addr   string `required:""`
	Redis  string `required:"" secret:"url"`
	MySQL  string `name:"mysql" required:"" secret:"url"`
	Secret string `required:"" secret:"all"`
}

// Run serves until ctx is canceled.
func (c *variantCommand) Run(ctx context.Context, s streams) error {
	server, err := gallery.Open(ctx, c.Name, c.Addr, c.Redis, c.MySQL, c.Secret)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.err, "%s sells at %s\n", c.Name, server.URL())
	return server.Run(ctx)
}
