package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/doctor"
)

type doctorCommand struct {
	Redis     string `required:"" placeholder:"URL" help:"URL of Redis, as in serve --redis."`
	MySQL     string `name:"mysql" required:"" placeholder:"DSN" help:"Data source name of MySQL, as in serve --mysql."`
	Namespace string `placeholder:"NAME" help:"Namespace in Redis, as in serve --namespace."`
	Nodes     int    `default:"2" help:"Number of nodes that will use these stores. Default ${default}."`
	JSON      bool   `name:"json" help:"Print the findings as JSON."`
}

// Run prints the findings. If one of them is bad, the exit status is 1.
func (c *doctorCommand) Run(ctx context.Context, s streams) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	rdb, err := app.OpenRedis(c.Redis)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	db, err := sql.Open("mysql", c.MySQL)
	if err != nil {
		return fmt.Errorf("parse the DSN of --mysql: %w (want a DSN such as user:password@tcp(host:3306)/flashsale)", err)
	}
	defer func() { _ = db.Close() }()
	prefix := app.Prefix(c.Namespace)
	found := doctor.Examine(ctx, rdb, db, doctor.Plan{
		Nodes: c.Nodes, RedisConnections: app.RedisConnections, MySQLConnections: app.MySQLConnections,
		Prefix: prefix, Sentinel: strings.Contains(c.Redis, "+sentinel://"),
		Refused: func(ctx context.Context, rdb *redis.Client) ([]string, error) { return app.Refused(ctx, rdb, prefix) },
	})
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		if err := e.Encode(found); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			_, _ = fmt.Fprintf(s.out, "%-4s  %s: %s\n", f.Level, f.Store, f.What)
			if f.Why != "" {
				_, _ = fmt.Fprintf(s.out, "      why: %s\n      do:  %s\n", f.Why, f.Do)
			}
		}
	}
	if slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Level == doctor.Bad }) {
		return exitCode(1)
	}
	return nil
}
