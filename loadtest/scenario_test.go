package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	return string(text)
}

// Each example passes on a correct sale. Stock and phases are shortened.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range ScenarioNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := ReadScenario(name)
			check.Must(t, err)
			faults := map[string]fault{}
			for _, sale := range s.Sales {
				faults[sale.SKU] = fault{}
			}
			c := quick(newFakes(t, faults))
			long := c
			s.ApplyTo(&long)
			check.Must(t, long.Validate())

			for i := range s.Sales {
				s.Sales[i].Stock /= 10
			}
			for i, p := range s.Phases {
				s.Phases[i].For = max(p.For/20, duration(100*time.Millisecond))
			}
			s.ApplyTo(&c)
			c.PaymentWindow = min(c.PaymentWindow, time.Second)
			all, err := RunAll(t.Context(), c)
			check.Must(t, err)
			attempts := 0
			for i, rep := range all.Sales {
				attempts += rep.Attempts
				if got := names(rep.Verdict); got != "" {
					t.Errorf("sale %s: got violations %q, want none\n%s", rep.SKU, got, text(t, rep))
				}
				if sold := rep.Pending + rep.Paid; sold != s.Sales[i].Stock {
					t.Errorf("sale %s: got %d units sold, want %d", rep.SKU, sold, s.Sales[i].Stock)
				}
			}
			if attempts != c.requests() {
				t.Errorf("orders: got %d, want %d", attempts, c.requests())
			}
		})
	}
}

func TestScenarioErrors(t *testing.T) {
	const rest = "\nname: x\nsales: [{sku: a, stock: 1}]\nphases: [{rate: 1, for: 1s}]"
	for _, tc := range []struct{ text, want string }{
		{"colour: red" + rest, `[1:1] unknown field "colour"`},
		{"name: x\nsales:\n  - {sku: a, stok: 3}", `[3:14] unknown field "stok"`},
		{"shares:\n  replays: lots" + rest, "[2:12] cannot unmarshal"},
		{"payment_window: 5" + rest, `[1:17] "5" is not a duration`},
		{"name: x\nname: y", "[2:1]"},
		{"", "name: empty\nsales: none\nphases: none"},
		{"name: x\nsales: [{stock: 1}]\nphases: [{rate: 1, for: 1s}]", "sales[0].sku"},
		{"name: x\nsales: [{sku: a, stock: 1}]\nphases: [{shape: ramp, rate: 1, for: 1s}]", "phases[0]: a ramp has from and to"},
		{"name: x\nsales: [{sku: a, stock: 1}]\nphases: [{rate: 1, to: 5, for: 1s}]", "phases[0]: only a ramp has from and to"},
	} {
		_, err := parseScenario([]byte(tc.text))
		contains(t, fmt.Sprint(err), tc.want)
	}
	_, err := ReadScenario("no-such-thing")
	contains(t, fmt.Sprint(err), append(ScenarioNames(), "no-such-thing")...)
}

// A key that a scenario lacks leaves the Config unchanged. Invalid values are reported
// by field.
func TestScenarioInto(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	check.Must(t, os.WriteFile(path, []byte("name: x\nbuyers: {count: 7, zipf: 0.5}\nsales: [{sku: a, stock: 3}, {sku: b}]\nphases: [{shape: ramp, from: 30, to: 10, for: 2s}, {shape: wave, rate: 5, for: 1ms}]\n"), 0o644))
	s, err := ReadScenario(path)
	check.Must(t, err)
	c := Defaults()
	s.ApplyTo(&c)
	if c.Buyers != 7 || c.Replays != Defaults().Replays || c.Seed != Defaults().Seed {
		t.Errorf("scenario: got buyers %d, replays %v, seed %d, want 7 buyers and the other defaults", c.Buyers, c.Replays, c.Seed)
	}
	if got, want := c.Phases[0], (Phase{Ramp, 20, 30, 2 * time.Second}); got != want {
		t.Errorf("phase: got %+v, want %+v", got, want)
	}
	if sale := c.Sales[0]; !strings.HasPrefix(sale.SKU, "a-") || sale.Name != "a" || sale.UnitsPerBuyer != 1 || sale.Weight != 1 {
		t.Errorf("sale: got %+v, want the defaults of a scenario", sale)
	}
	c.MaxQuantity = 2
	contains(t, fmt.Sprint(c.Validate()), "Sales[1].Stock:", "Phases[1].Duration:", "Phases[1].Shape:", "Zipf:", "MaxQuantity:")
}

func TestListScenarios(t *testing.T) {
	var b bytes.Buffer
	check.Must(t, ListScenarios(&b))
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if len(strings.Fields(line)) < 5 {
			t.Errorf("line of the scenario list: got %q, want a name and a description", line)
		}
	}
	if got := strings.Count(b.String(), "\n"); got != len(ScenarioNames()) || got < 3 {
		t.Errorf("scenario list: got %d lines, want %d", got, len(ScenarioNames()))
	}
}
