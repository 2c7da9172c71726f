package loadtest

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"flashsale/loadtest/report"
)

// Scenario is an attack in a YAML file. A key that is missing leaves the field of
// Config unchanged. The examples in scenarios/ show all keys.
type Scenario struct {
	Name  string
	About string // one or two sentences
	Seed  *int64 // Config.Seed
	Sales []Sale // at least one; each run appends a suffix to the SKU to make it new

	Buyers struct {
		Count       *int    // Config.Buyers
		Zipf        float64 // Config.Zipf
		MaxQuantity *int    `yaml:"max_quantity"`
	}
	Shares struct { // shares of Config
		Replays, Cancels, Payments *float64
		SecondOrders               *float64 `yaml:"second_orders"`
	}
	ReserveOn     *string   `yaml:"reserve_on"` // Config.ReserveOn
	PaymentWindow *duration `yaml:"payment_window"`
	Timeout       *duration

	Phases []stretch // at least one
}

// stretch is a Phase in a scenario. A ramp has From and To instead of Rate.
type stretch struct {
	Shape          string // empty means constant
	Rate, From, To int
	For            duration
}

// duration is a time.Duration in YAML, such as 500ms.
type duration time.Duration

// UnmarshalYAML parses a duration. The error contains line and column.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	at := n.GetToken()
	v, err := time.ParseDuration(at.Value)
	if err != nil {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is not a duration such as 5s or 500ms", at.Value), Token: at}
	}
	*d = duration(v)
	return nil
}

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// ReadScenario reads a scenario from a file, or an example by its name. An unknown key
// is an error that contains line and column.
func ReadScenario(name string) (*Scenario, error) {
	text, err := scenarioFiles.ReadFile(path.Join("scenarios", name+".yaml"))
	if err != nil {
		text, err = os.ReadFile(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read scenario %s: no such file or example (examples: %s)", name, strings.Join(ScenarioNames(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", name, err)
	}
	s, err := parseScenario(text)
	if err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", name, err)
	}
	return s, nil
}

func parseScenario(text []byte) (*Scenario, error) {
	var s Scenario
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(s.Name != "", "name: empty")
	check(len(s.Sales) > 0, "sales: none")
	check(len(s.Phases) > 0, "phases: none")
	for i, o := range s.Sales {
		check(o.SKU != "", "sales[%d].sku: empty", i)
	}
	for i, p := range s.Phases {
		ramp := p.Shape == Ramp
		check(!ramp || p.Rate == 0 && p.From > 0 && p.To > 0, "phases[%d]: a ramp has from and to, 1 per second or more, and no rate", i)
		check(ramp || p.From == 0 && p.To == 0, "phases[%d]: only a ramp has from and to", i)
	}
	return &s, errors.Join(faults...)
}

// ApplyTo sets the fields of c that the scenario defines. It does not validate c.
func (s *Scenario) ApplyTo(c *Config) {
	c.Scenario = s.Name
	SetIfGiven(&c.Seed, s.Seed)
	SetIfGiven(&c.Buyers, s.Buyers.Count)
	SetIfGiven(&c.MaxQuantity, s.Buyers.MaxQuantity)
	SetIfGiven(&c.Replays, s.Shares.Replays)
	SetIfGiven(&c.SecondOrders, s.Shares.SecondOrders)
	SetIfGiven(&c.CancelShare, s.Shares.Cancels)
	if SetIfGiven(&c.ReserveOn, s.ReserveOn); c.onPayment() {
		*c = c.ForPayment()
	}
	SetIfGiven(&c.Payments, s.Shares.Payments)
	SetIfGiven(&c.PaymentWindow, (*time.Duration)(s.PaymentWindow))
	SetIfGiven(&c.Timeout, (*time.Duration)(s.Timeout))
	c.Zipf = s.Buyers.Zipf
	c.Sales, c.Phases = nil, nil
	for _, sale := range s.Sales {
		sale.SKU, sale.Name = newSKU(sale.SKU), cmp.Or(sale.Name, sale.SKU)
		sale.UnitsPerBuyer, sale.Weight = cmp.Or(sale.UnitsPerBuyer, 1), cmp.Or(sale.Weight, 1)
		c.Sales = append(c.Sales, sale)
	}
	for _, p := range s.Phases {
		c.Phases = append(c.Phases, p.phase())
	}
}

func (p stretch) phase() Phase {
	if p.Shape == Ramp {
		p.Rate = (p.From + p.To) / 2
	}
	return Phase{Shape: cmp.Or(p.Shape, Constant), Rate: p.Rate, From: p.From, Duration: time.Duration(p.For)}
}

// SetIfGiven copies *from to *to. It does nothing if from is nil.
func SetIfGiven[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// ListScenarios writes the name and the description of each example.
func ListScenarios(w io.Writer) error {
	var t report.Text
	for _, name := range ScenarioNames() {
		s, err := ReadScenario(name)
		if err != nil {
			return err
		}
		t.Row(name, strings.Join(strings.Fields(s.About), " "))
	}
	return t.Write(w)
}

// ScenarioNames returns the names of the examples.
func ScenarioNames() []string {
	entries, err := scenarioFiles.ReadDir("scenarios")
	if err != nil {
		panic(err) // the files are embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}
