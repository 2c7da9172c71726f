// Command flashsale sells limited stock to very many buyers at once and never
// oversells. Start with:
//
//	flashsale demo
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	redis.SetLogger(redisLog{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal then kills the program
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	exit, ok := errors.AsType[exitCode](err)
	switch {
	case ok:
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "flashsale:", err)
		os.Exit(3)
	}
}

// redisLog writes the log messages of go-redis at level DEBUG.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, v ...any) {
	slog.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

// exitCode is an error with an exit status: 1 if the verdict found a violation,
// 2 if the verdict could not judge, 3 if a command with --json has printed its error. All other
// errors have exit status 3, too.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// A result is a pointer to the outcome of a run. It is nil if the run has no outcome.
type result interface {
	comparable
	WriteText(w io.Writer) error
	WriteJSON(w io.Writer) error
	ExitCode() int
}

// finish prints the result and returns err or the exit status. If the run ended
// early with err, the result up to then is printed as well.
func finish[R result](s streams, result R, asJSON bool, err error) error {
	var none R
	if result == none {
		return err
	}
	write := result.WriteText
	if asJSON {
		write = result.WriteJSON
	}
	if writeErr := write(s.out); writeErr != nil {
		err = errors.Join(err, fmt.Errorf("print the result: %w", writeErr))
	}
	if code := result.ExitCode(); err == nil && code != 0 {
		return exitCode(code)
	}
	return err
}

type commands struct {
	Serve    serveCommand    `cmd:"" group:"sell" help:"Run one node. It serves the API, keeps its share of the sales, and expires unpaid orders."`
	Migrate  migrateCommand  `cmd:"" group:"sell" help:"Update the database schema and exit."`
	Demo     demoCommand     `cmd:"" group:"prove" help:"Attack a sale on this machine until it is sold out, and judge the result."`
	Loadtest loadtestCommand `cmd:"" group:"prove" help:"Attack a running server, and judge what it sold."`
	Crowd    crowdCommand    `cmd:"" group:"prove" help:"Send buyers to a sale on a running server, slowly enough to watch."`
	Drill    drillCommand    `cmd:"" group:"prove" help:"Kill, pause and disconnect parts of a running service, and judge what it sold."`
	Compare  compareCommand  `cmd:"" group:"prove" help:"Compare correct and broken ways to sell under the same attack."`
	Bench    benchCommand    `cmd:"" group:"prove" help:"Measure the program against minimal counterparts."`

	Sale        saleCommand        `cmd:"" group:"operate" help:"Create, show, restock, close and archive sales."`
	Buy         buyCommand         `cmd:"" group:"operate" help:"Buy from a running server, as a buyer would."`
	Order       orderCommand       `cmd:"" group:"operate" help:"List, show, pay and cancel orders on a running server."`
	Changes     changesCommand     `cmd:"" group:"operate" help:"Print what was sold: the state of every order and sale that has changed."`
	Webhook     webhookCommand     `cmd:"" group:"operate" help:"List and resume the webhooks, and print their secrets."`
	Audit       auditCommand       `cmd:"" group:"operate" help:"Show where all units of a sale are. Exit status: 0 if they add up, 1 if they do not."`
	Token       tokenCommand       `cmd:"" group:"operate" help:"Print a bearer token for a buyer or an operator."`
	Doctor      doctorCommand      `cmd:"" group:"operate" help:"Check the settings of Redis and MySQL, and print what to change and why."`
	Healthcheck healthcheckCommand `cmd:"" group:"operate" help:"Ask a running node whether it can sell. Exit status: 0 if it can, 1 if it cannot."`

	Completion completionCommand `cmd:"" group:"program" help:"Print a script that completes commands and flags on Tab."`

	GinBaseline ginBaselineCommand `cmd:"" name:"bench-hello" hidden:""`
	Variant     variantCommand     `cmd:"" hidden:""`

	Print kong.VersionFlag `name:"version" env:"-" help:"Print the version, revision and Go version of this program."`
}

// groups lists the groups of commands in the order of the help.
var groups = []kong.Group{
	{Key: "sell", Title: "Sell:"},
	{Key: "prove", Title: "Test and compare:"},
	{Key: "operate", Title: "Operate a server:"},
	{Key: "program", Title: "This program:"},
}

// streams holds the output streams and the arguments of a command.
type streams struct {
	out, err io.Writer
	args     []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	exited := -1
	parser, err := newParser(&commands{}, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		return err
	}
	if answerTab(parser); exited >= 0 {
		return nil
	}
	parsed, err := parser.Parse(forKong(args))
	if exited >= 0 { // Parse has printed the help or the version
		return nil
	}
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		node := cmp.Or(wrong.Context.Selected(), parser.Model.Node)
		err = fmt.Errorf("%s (%s --help)", usageError(wrong, parser.Model), node.FullPath())
	} else if err == nil {
		err = checkSettings(parsed)
	}
	switch {
	case err != nil && slices.Contains(args, "--json"):
		return printProblem(stderr, "usage", err)
	case err != nil:
		return err
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(streams{out: stdout, err: stderr, args: args})
	asJSON := slices.ContainsFunc(parsed.Flags(), func(f *kong.Flag) bool { return f.Name == "json" && f.Target.Bool() })
	if _, printed := errors.AsType[exitCode](err); err == nil || printed || !asJSON {
		return err
	}
	code := api.As(err).Code
	if strings.HasPrefix(err.Error(), "--") { // the value of a flag is wrong
		code = "usage"
	}
	return printProblem(stderr, code, err)
}

var (
	unknownFlag = regexp.MustCompile(`^unknown flag (--[\w-]+)`)
	bits        = regexp.MustCompile(`a valid \d+ bit u?int`)
)

// usageError returns the text of an error of kong. Kong mentions the size of integers, lists missing
// flags without the missing arguments, does not explain missing arguments, and calls a flag of a command unknown before the command.
func usageError(err *kong.ParseError, program *kong.Application) string {
	text := bits.ReplaceAllString(err.Error(), "a whole number")
	node := err.Context.Selected()
	switch flag := unknownFlag.FindStringSubmatch(text); {
	case flag != nil && (node == nil || len(node.Children) > 0):
		for _, command := range program.Leaves(true) {
			if slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return "--"+f.Name == flag[1] }) {
				return "put " + flag[1] + " after the command"
			}
		}
	case node != nil && (strings.HasPrefix(text, "missing flags: ") || strings.HasPrefix(text, `expected "<`)):
		for _, argument := range node.Positional {
			given := slices.ContainsFunc(err.Context.Path, func(p *kong.Path) bool { return p.Positional == argument })
			switch {
			case !argument.Required || given:
			case strings.HasPrefix(text, "expected "):
				return argument.Summary() + " is missing: " + strings.TrimSuffix(argument.Help, ".")
			default:
				text += ", " + argument.Summary()
			}
		}
		text = strings.Replace(text, "missing flags: ", "missing: ", 1)
	}
	return text
}

// forKong returns args in the form that kong understands. "help" and "version" become flags. A
// negative number is joined to its flag, because kong takes the -5 in "--by -5" for a flag.
func forKong(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "version":
		return append([]string{"--version"}, args[1:]...)
	}
	list := slices.Clone(args)
	for i := len(list) - 1; i > 0; i-- {
		if pair := list[i-1] + "=" + list[i]; negative(pair) {
			list = slices.Replace(list, i-1, i+1, pair)
		}
	}
	return list
}

// negative reports whether text is a flag with a negative number, such as --by=-5 or --for=-1h.
var negative = regexp.MustCompile(`^--[^=]+=-[0-9.][^=]*$`).MatchString

// printProblem prints err as one JSON object: the server's problem document, or one with code if there
// is none, with the text of err in the member message.
func printProblem(w io.Writer, code string, err error) error {
	doc := map[string]any{}
	if code != "" {
		doc["code"] = code
	}
	_ = json.Unmarshal(api.As(err).Problem, &doc) // if there is none, doc stays as it is
	doc["message"] = err.Error()
	return errors.Join(json.NewEncoder(w).Encode(doc), exitCode(3))
}

func newParser(c *commands, stdout, stderr io.Writer, exit func(code int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("flashsale"),
		kong.Description("Sell 1,000 units to a million people at once without overselling.\n\n"+
			"Start with: flashsale demo\n\n"+
			"Each flag can also be set by an environment variable: --limit-buyer by FLASHSALE_LIMIT_BUYER. "+
			"Exit status: 0 success, 1 a violation was found, "+
			"2 the verdict could not judge or never exercised a check, 3 any other error."),
		kong.ExplicitGroups(groups),
		kong.Vars{"version": version(), "strategy": variants.Lua},
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.DefaultEnvars("FLASHSALE"),
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }), // without the variable of each flag, which kong would append
		attackDefaults(),
		app.Vars,
		kong.Exit(exit),
	)
}
