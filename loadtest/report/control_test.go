package report

import (
	"strings"
	"testing"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/servers/servertest/check"
)

// A control counts if it sent one call at a time to the same shop. Its result is part of the
// verdict.
func TestReadControl(t *testing.T) {
	t.Parallel()
	lacking := func(e *judge.Evidence) { e.Lacks = []judge.Feature{judge.Keys} }
	for name, tc := range map[string]struct {
		bend        func(*judge.Evidence)
		change      func(*Config)
		want, fault string
	}{
		"passed":           {lacking, func(*Config) {}, "passed: 9 orders, one at a time", ""},
		"failed":           {func(e *judge.Evidence) { lacking(e); e.Audit.Available = 2 }, func(*Config) {}, "did not pass", ""},
		"orders overlap":   {lacking, func(c *Config) { c.Serial = false }, "", "its calls overlapped"},
		"another version":  {lacking, func(c *Config) { c.Shop.Version = "1.3" }, "", "it is about Toy 1.3, SQLite, want Toy 1.2, SQLite"},
		"this project":     {lacking, func(c *Config) { c.Shop = nil }, "", "it is about this project's service, want Toy 1.2, SQLite"},
		"lacks more":       {func(e *judge.Evidence) { e.Lacks = judge.Features() }, func(*Config) {}, "", "its shop lacks keys, limit, audit,"},
		"gave up":          {lacking, func(*Config) {}, "", "1 of its calls got no answer"},
		"no report at all": {nil, nil, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			shop := judge.About{Name: "Toy", Version: "1.2", Settings: "SQLite", Lacks: []judge.Feature{judge.Keys}}
			if tc.bend != nil {
				control := dayReport(tc.bend)
				control.Serial = true
				if name != "gave up" {
					delete(control.Answers, "0")
				}
				tc.change(&control.Config)
				check.Must(t, control.Save(dir))
			}
			got, err := ReadControl(dir, &shop)
			if tc.fault == "" {
				check.Must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("control: got error %v, want %s", err, tc.fault)
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("control: got %q, want %q", got, tc.want)
			}
		})
	}
}
