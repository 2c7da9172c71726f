package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

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

var (
	//go:embed completion/flashsale.bash
	bashScript string
	//go:embed completion/flashsale.zsh
	zshScript string
	//go:embed completion/flashsale.fish
	fishScript string
)

// Run prints the script.
func (c *completionCommand) Run(s streams) error {
	_, err := io.WriteString(s.out, map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell])
	return err
}

// completeCommand is what the scripts ask: the words so far without the
// program's own, the last of them unfinished.
type completeCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints one candidate per line, and what it is after a tab. None means
// that the shell may offer files.
func (c *completeCommand) Run(k *kong.Context, s streams) error {
	for _, found := range complete(k.Model.Node, c.Words) {
		if _, err := fmt.Fprintf(s.out, "%s\t%s\n", found.word, found.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a word that may come next.
type candidate struct{ word, help string }

// complete lists what may stand in place of the last of the words.
func complete(node *kong.Node, words []string) []candidate {
	words = joined(words)
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var waiting *kong.Flag // for its value
	for _, word := range words[:len(words)-1] {
		if waiting != nil {
			waiting = nil
			continue
		}
		if strings.HasPrefix(word, "-") {
			if f := flagNamed(node, word); f != nil && !f.IsBool() {
				waiting = f
			}
			continue
		}
		if child := childNamed(node, word); child != nil {
			node = child
		}
	}
	var all []candidate
	name, _, assigned := strings.Cut(last, "=")
	switch {
	case waiting != nil:
		all = values(waiting)
	case strings.HasPrefix(last, "--") && assigned:
		if f := flagNamed(node, name); f != nil {
			for _, v := range values(f) {
				all = append(all, candidate{name + "=" + v.word, v.help})
			}
		}
	case strings.HasPrefix(last, "-"):
		for at := node; at != nil; at = at.Parent {
			for _, f := range at.Flags {
				if !f.Hidden {
					all = append(all, candidate{"--" + f.Name, firstSentence(f.Help)})
				}
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, candidate{child.Name, firstSentence(child.Help)})
			}
		}
		for _, p := range node.Positional {
			all = append(all, plain(p.EnumSlice())...)
		}
	}
	var found []candidate
	for _, c := range all {
		if strings.HasPrefix(c.word, last) {
			found = append(found, c)
		}
	}
	return found
}

// joined undoes bash's taking apart of --flag=value at the equals sign: the
// value alone is what it wants to have completed.
func joined(words []string) []string {
	var list []string
	for i, word := range words {
		switch {
		case word == "=" && i == len(words)-1:
			list = append(list, "")
		case word != "=":
			list = append(list, word)
		}
	}
	return list
}

// flagNamed finds --name among those that node knows.
func flagNamed(node *kong.Node, word string) *kong.Flag {
	for at := node; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			if "--"+f.Name == word {
				return f
			}
		}
	}
	return nil
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// values are a flag's, where they can be listed.
func values(f *kong.Flag) []candidate {
	if f.Name == "scenario" {
		return plain(append(loadtest.ScenarioNames(), "list"))
	}
	return plain(f.EnumSlice())
}

func plain(list []string) []candidate {
	var all []candidate
	for _, word := range list {
		if word != "" {
			all = append(all, candidate{word: word})
		}
	}
	return all
}

// firstSentence is as much of a help text as there is room for beside a word.
func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}
