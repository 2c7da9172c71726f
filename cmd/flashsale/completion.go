package main

import (
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"flashsale/cmd/flashsale/internal/prove/drill"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest"
)

// completionCommand prints a script that has the shell ask this program, each
// time Tab is pressed, which words may come next.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says what to do with the script.
func (completionCommand) Help() string {
	return `For this shell, and every new one when put into its start-up file:

  bash, in ~/.bashrc:                    source <(flashsale completion bash)
  zsh, in ~/.zshrc, after compinit:      source <(flashsale completion zsh)
  fish, in ~/.config/fish/config.fish:   flashsale completion fish | source`
}

// Run prints the script. The library's own command prints advice instead, unless
// a flag is given.
func (c *completionCommand) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

// answerTab prints which words may come next, and calls the parser's exit, if it
// is a shell that started this program.
func answerTab(parser *kong.Kong) {
	kongcompletion.Register(parser,
		kongcompletion.WithPredictor("strategy", complete.PredictSet(variants.Strategies()...)),
		kongcompletion.WithPredictor("scenario", complete.PredictSet(append(loadtest.ScenarioNames(), "list")...)),
		kongcompletion.WithPredictor("drill", complete.PredictSet(append(append(drill.Names(), drill.ByName()...), drill.Storm)...)))
}
