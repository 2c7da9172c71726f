package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "serve migrate demo loadtest drill compare bench sale order audit token doctor healthcheck completion version",
		"de":                            "demo",
		"sale ":                         "create show restock close",
		"sale re":                       "restock",
		"demo --sh":                     "--shape",
		"demo --shape ":                 "constant ramp burst",
		"demo --shape ra":               "ramp",
		"demo --shape=ra":               "--shape=ramp",
		"demo --shape = ra":             "ramp", // as bash takes it apart
		"demo --shape =":                "constant ramp burst",
		"demo --real --scenario b":      "bots",
		"demo --scenario=sec":           "--scenario=second-chance",
		"sale create demo --reserve-on": "--reserve-on", // an argument's value is no command
		"completion ":                   "bash zsh fish",
		"demo --stock ":                 "", // a number
		"demo --stock 5 --sto":          "--stock",
		"bench-":                        "", // hidden
		"nonsense --":                   "--help --version",
	} {
		args := []string{"complete", "--"}
		out, _, err := command(t, append(args, strings.Split(line, " ")...)...)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		var got []string
		for found := range strings.Lines(out) {
			word, _, _ := strings.Cut(found, "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
}

// Each script in its shell, where that is installed.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "flashsale")); err != nil {
		t.Fatal(err)
	}
	for shell, tc := range map[string]struct{ ask, want string }{
		"bash": {`COMP_WORDS=(flashsale demo --shape = r) COMP_CWORD=4; _flashsale; echo "${COMPREPLY[@]}"`, "ramp"},
		// Instead of what only works on Tab, print what is offered.
		"zsh":  {`compadd() { print -r -- $found }; words=(flashsale sale re) CURRENT=3; _flashsale`, "restock"},
		"fish": {`complete -C "flashsale sale re"`, "restock\tChange how many units there are; what is sold stays sold"},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("not installed")
			}
			script, _, err := command(t, "completion", shell)
			if err != nil {
				t.Fatal(err)
			}
			if shell == "zsh" {
				script = "compdef() { }\n" + script // of compinit
			}
			file := filepath.Join(dir, shell)
			if err := os.WriteFile(file, []byte(script+tc.ask+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), path, file)
			cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			got, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(got)) != tc.want || errs.Len() > 0 {
				t.Errorf("%v: %q, want %q\n%s", err, got, tc.want, &errs)
			}
		})
	}
}
