// Command flashsale sells limited stock to very many buyers at once, and never
// one unit too many. Start with:
//
//	flashsale demo
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "flashsale:", err)
		os.Exit(3)
	}
}

// exitCode ends the program with a status that says something: 1 the verdict
// found a violation, 2 it could not judge. Every other error is 3.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// commands are the program's.
type commands struct {
	Serve       serveCommand       `cmd:"" help:"Run one node: the API, its share of the keepers, and the sweeper."`
	Demo        demoCommand        `cmd:"" help:"Sell out a sale on this machine under attack, and judge it."`
	Loadtest    loadtestCommand    `cmd:"" help:"Attack a running server, and judge what it sold."`
	Bench       benchCommand       `cmd:"" help:"Measure the program against plain counterparts, on private real servers."`
	Drill       drillCommand       `cmd:"" help:"Kill, pause and cut off parts of a selling service, on private real servers, and judge it."`
	Compare     compareCommand     `cmd:"" help:"Compare ways to sell, right and wrong, on private real servers, under one attack."`
	Hello       helloCommand       `cmd:"" name:"bench-hello" hidden:""`
	Sale        saleCommand        `cmd:"" help:"Create, show, restock and close sales on a running server."`
	Order       orderCommand       `cmd:"" help:"Look at an order on a running server."`
	Audit       auditCommand       `cmd:"" help:"Where are all units of a sale? Exit status 0 they add up, 1 they do not."`
	Token       tokenCommand       `cmd:"" help:"Print a bearer token for a buyer or an operator."`
	Doctor      doctorCommand      `cmd:"" help:"Look at Redis and MySQL as they are set up, and say what to change, and why."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database's schema up to date, and stop."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running server whether it can sell: exit status 0 yes, 1 no."`
}

// streams are where a command writes.
type streams struct{ out, err io.Writer }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	exited := -1
	parser, err := newParser(&commands{}, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // help was asked for and is printed
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w (flashsale --help)", err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(streams{out: stdout, err: stderr})
}

func newParser(c *commands, stdout, stderr io.Writer, exit func(code int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("flashsale"),
		kong.Description("Sell 1,000 units to a million people at once, and not one unit too many.\n\n"+
			"Every flag has an environment variable, shown behind it. Exit status: 0 fine, 1 a violation was found, "+
			"2 the verdict could not judge or never exercised a check, 3 anything else."),
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.DefaultEnvars("FLASHSALE"),
		kong.Exit(exit),
	)
}
