package main

import (
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"flashsale/cmd/flashsale/internal/prove/drill"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/loadtest"
)

// completionCommand prints a completion script. When the user presses Tab, the script
// runs this program to list the possible next words.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help shows how to load the script.
func (completionCommand) Help() string {
	return `Run this command, or add it to the start-up file of your shell:

  bash, in ~/.bashrc:                    source <(flashsale completion bash)
  zsh, in ~/.zshrc, after compinit:      source <(flashsale completion zsh)
  fish, in ~/.config/fish/config.fish:   flashsale completion fish | source`
}

// Run prints the script. Without Code, the library would print installation advice instead.
func (c *completionCommand) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

// answerTab prints the possible next words and calls the parser's exit if the
// completion script has started this program. Otherwise it returns.
func answerTab(parser *kong.Kong) {
	kongcompletion.Register(parser,
		kongcompletion.WithPredictor("strategy", complete.PredictSet(variants.Strategies()...)),
		kongcompletion.WithPredictor("scenario", complete.PredictSet(append(loadtest.ScenarioNames(), "list")...)),
		kongcompletion.WithPredictor("drill", complete.PredictSet(append(append(drill.Names(), drill.ByName()...), drill.Storm)...)))
}
