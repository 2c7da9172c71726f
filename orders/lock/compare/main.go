package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	each := flag.Duration("each", 2*time.Second, "how long each figure is measured")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: compare [-each 2s] [lock] [limiter]")
		fmt.Fprintln(flag.CommandLine.Output(), "Prints a table of each, or of those that are named, against one private redis-server.")
		flag.PrintDefaults()
	}
	flag.Parse()
	lab, err := newLab(ctx, *each)
	if err != nil {
		return err
	}
	defer lab.close()
	for _, f := range families {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), f.name) {
			continue
		}
		if err := f.run(ctx, lab, os.Stdout); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	fmt.Println(lab.version)
	return nil
}
