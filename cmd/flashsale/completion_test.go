package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

func TestTabOffers(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "audit bench buy compare completion crowd demo doctor drill healthcheck loadtest migrate order sale serve token",
		"de":                            "demo",
		"sale ":                         "archive close create restock show",
		"sale re":                       "restock",
		"demo --sh":                     "--shape",
		"demo --shape ":                 "burst constant ramp",
		"demo --shape=ra":               "ramp", // a shell replaces what is behind the equals sign
		"demo --real --scenario b":      "bots",
		"demo --scenario=sec":           "second-chance",
		"drill node-killed redis-fail":  "redis-failover",
		"sale create demo --reserve-on": "--reserve-on", // an argument's value is no command
		"completion ":                   "bash fish zsh",
		"demo --stock ":                 "", // a number
		"demo --stock 5 --sto":          "--stock",
		"bench-":                        "", // hidden
		"nonsense --":                   "--help --version",
	} {
		t.Setenv("COMP_LINE", "flashsale "+line)
		out, _, err := command(t)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got := strings.Fields(out)
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// What a user gets on Tab in each shell, where that is installed.
func TestTabInShells(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	check.Must(t, err)
	check.Must(t, os.Symlink(self, filepath.Join(dir, "flashsale")))
	for shell, tc := range map[string]struct {
		args   []string
		script string
		want   []string
	}{
		// The program runs no command: a function prints what Tab has made of the line.
		"bash": {[]string{"--norc", "--noprofile", "-i"}, `source <(flashsale completion bash)
flashsale() { echo "$@"; }
flashsale sale re` + "\t" + `
flashsale demo --shape=r` + "\t" + `
flashsale demo --scenario sec` + "\t" + `
`, []string{"sale restock", "demo --shape=ramp", "demo --scenario second-chance"}},
		// What only works on Tab prints what is offered instead.
		"zsh": {[]string{"-f"}, `autoload -U compinit && compinit -D -u
source <(flashsale completion zsh)
compadd() { [[ ${@[-1]} == - ]] || print -r -- ${@[-1]} }
words=(flashsale sale re) CURRENT=3 PREFIX=re; eval $_comps[flashsale]
words=(flashsale demo --scenario sec) CURRENT=4 PREFIX=sec; eval $_comps[flashsale]
`, []string{"restock", "second-chance"}},
		"fish": {nil, `flashsale completion fish | source
complete -C "flashsale sale re"
complete -C "flashsale demo --shape r"
complete -C "flashsale demo --scenario sec"
`, []string{"restock", "ramp", "second-chance"}},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("not installed")
			}
			cmd := exec.CommandContext(t.Context(), path, tc.args...)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "INPUTRC="+os.DevNull)
			cmd.Stdin = strings.NewReader(tc.script)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%v: %q, want %q\n%s", err, got, tc.want, &errs)
			}
		})
	}
}
