package loadtest

import (
	"strings"
	"testing"

	"flashsale/loadtest/judge"
)

func TestProgressLines(t *testing.T) {
	var b strings.Builder
	p := progress{w: &b}
	var stock stockLine
	stock.add(7)
	stock.add(6)
	p.start("attack", 3, &stock)
	p.add(judge.Request{Answer: judge.Answer{Status: 201}})
	p.printed = p.printed.Add(-2 * every)
	p.add(judge.Request{Answer: judge.Answer{Status: 409, Code: "sold_out"}})
	p.add(judge.Request{})
	p.end()
	p.start("probes", 2)
	p.printed = p.printed.Add(-2 * every)
	p.add()
	p.end()
	p.start("settling", 0)
	p.end()
	p.printf("%s:", "next")
	contains(t, b.String(),
		"attack: 3 to go\n",
		"attack: 2 of 3, 6 left, accepted 1, sold_out 1\n",
		"attack: 3 in 0.0s, 6 left, accepted 1, no answer 1, sold_out 1\n",
		"probes: 1 of 2\n", "probes: 1 in 0.0s\n", "settling …\n", "next:\n",
	)
	var silent progress
	silent.start("attack", 1)
	silent.add(judge.Request{})
	silent.end()
	silent.printf("nothing")
}

// If the stock of one sale is not known, no stock is printed.
func TestProgressOmitsUnknownStock(t *testing.T) {
	var known, unknown stockLine
	known.add(7)
	if got := (&progress{stocks: []*stockLine{&known, &unknown}}).stockLeft(); got != "" {
		t.Errorf("stock of one sale unknown: got %q, want none", got)
	}
	unknown.add(-3)
	if got := (&progress{stocks: []*stockLine{&known, &unknown}}).stockLeft(); got != ", 4 left" {
		t.Errorf(`stock of both sales known: got %q, want ", 4 left"`, got)
	}
}
