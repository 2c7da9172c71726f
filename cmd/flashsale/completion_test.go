package main

import (
	"slices"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "audit bench buy changes compare completion crowd demo doctor drill healthcheck loadtest migrate order sale serve token webhook",
		"de":                            "demo",
		"sale ":                         "archive close create restock show",
		"sale re":                       "restock",
		"demo --sh":                     "--shape",
		"demo --shape ":                 "burst constant ramp",
		"demo --shape=ra":               "ramp", // a shell replaces the text after the equals sign
		"demo --real --scenario b":      "bots",
		"demo --scenario=sec":           "second-chance",
		"drill node-killed redis-fail":  "redis-failover",
		"sale create demo --reserve-on": "--reserve-on", // the argument demo is not the command demo
		"completion ":                   "bash fish zsh",
		"demo --stock ":                 "", // a number
		"demo --stock 5 --sto":          "--stock",
		"bench-":                        "", // hidden
		"nonsense --":                   "--help --version",
	} {
		t.Setenv("COMP_LINE", "flashsale "+line)
		out, _, err := command(t)
		if err != nil {
			t.Errorf("completion of %q: got error %v, want none", line, err)
		}
		got := strings.Fields(out)
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("completion of %q: got %q, want %q", line, got, want)
		}
	}
}
