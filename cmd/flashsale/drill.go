package main

import (
	"context"
	"math/rand/v2"
	"time"

	"flashsale/cmd/flashsale/internal/prove/drill"
)

type drillCommand struct {
	Names []string `arg:"" optional:"" name:"name" completion-predictor:"drill" help:"Names of drills to run; --list lists them. The name storm runs many random faults at once. Default: all except mysql-failover, mysql-paused and group-failover."`

	Seed     int64         `placeholder:"NUMBER" help:"Seed of the random faults and requests. The order in which requests arrive still varies between runs. Default: a random seed, which is printed."`
	Rate     int           `default:"300" placeholder:"PER-SECOND" help:"Orders per second of a drill. Default ${default}."`
	Duration time.Duration `default:"10s" help:"Length of a drill's attack. The attack of redis-goes-back is 13s longer. Default ${default}."`
	Minutes  float64       `default:"1" placeholder:"NUMBER" help:"Length of the storm in minutes, without the time to settle. Default ${default}."`
	Faults   []string      `placeholder:"NAME" help:"Faults that the drill storm injects; --list lists them. Default: all."`
	Strategy string        `default:"${strategy}" completion-predictor:"strategy" help:"Strategy of the servers, as in demo --strategy. A broken strategy, such as no-limit, shows that a drill can fail. Default ${default}."`

	MySQLD       string `name:"mysqld" placeholder:"FOLDER" help:"Folder with the mysqld of MySQL 9, for group-failover."`
	Asynchronous bool   `help:"Do not let MySQL's primary wait for its replica: mysql-failover then loses orders and fails."`

	Keep  bool `help:"Keep the logs of failed drills and print their location. Default: yes." default:"true" negatable:""`
	JSON  bool `name:"json" help:"Print the result as one JSON object on stdout; progress goes to stderr."`
	Quiet bool `help:"Do not print progress."`
	List  bool `help:"List the drills and exit."`
}

// Help shows examples.
func (drillCommand) Help() string {
	return `Starts a private redis-server and mariadbd or mysqld, which must be installed. Examples:

  flashsale drill --list
  flashsale drill node-killed redis-failover
  flashsale drill --strategy no-limit   a broken strategy: the drills fail
  flashsale drill storm --minutes 30    many faults at once, drawn from a seed`
}

// Run runs the drills and prints their verdicts.
func (c *drillCommand) Run(ctx context.Context, s streams) error {
	if c.List {
		return drill.List(s.out)
	}
	cfg, err := labConfig(s, c.Quiet)
	if err != nil {
		return err
	}
	if c.Seed == 0 {
		c.Seed = 1 + rand.Int64N(1_000_000)
	}
	run := drill.Config{
		Config: cfg, Seed: c.Seed, Strategy: c.Strategy, Keep: c.Keep, Names: c.Names, Rate: c.Rate, Duration: c.Duration,
		Length: time.Duration(c.Minutes * float64(time.Minute)), Faults: c.Faults, Asynchronous: c.Asynchronous, MySQLFolder: c.MySQLD,
	}
	if err := run.Validate(); err != nil {
		return err
	}
	cfg.Progressf("seed: %d", c.Seed)
	report, err := drill.Run(ctx, run)
	return finish(s, report, c.JSON, err)
}
