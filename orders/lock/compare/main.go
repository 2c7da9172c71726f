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
	each := flag.Duration("each", 700*time.Millisecond, "how long each figure is measured in a round")
	rounds := flag.Int("rounds", 5, "how many rounds, in each of which all are measured in turn")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: compare [-each 700ms] [-rounds 5] [lock] [limiter]")
		fmt.Fprintln(flag.CommandLine.Output(), "Prints tables of the medians, of both or of what is named, against one private redis-server.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *each <= 0 || *rounds < 1 {
		return fmt.Errorf("-each %v -rounds %d: want more than 0", *each, *rounds)
	}
	families := map[string]func() []table{"lock": locks, "limiter": limiters}
	names := []string{"lock", "limiter"}
	if flag.NArg() > 0 {
		names = flag.Args()
	}
	if i := slices.IndexFunc(names, func(name string) bool { return families[name] == nil }); i >= 0 {
		return fmt.Errorf("%q is neither lock nor limiter", names[i])
	}
	lab, err := newLab(ctx, *each, *rounds)
	if err != nil {
		return err
	}
	defer lab.close()
	for _, name := range names {
		for _, t := range families[name]() {
			if err := t.print(ctx, os.Stdout, lab); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	fmt.Println(lab.version)
	return nil
}
