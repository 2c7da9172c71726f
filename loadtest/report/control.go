package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"flashsale/loadtest/judge"
)

// ReadControl reads the report in dir of a run that sent one call at a time, and returns the
// result in words. Such a run is the control of a shop: if its calls do not overlap, a correct
// adapter passes. ReadControl returns an error if the report is about another shop or version, or
// about overlapping calls.
func ReadControl(dir string, shop *judge.About) (string, error) {
	var d struct {
		document
		Sales []document // several sales
	}
	raw, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	switch {
	case err != nil:
	case len(d.Sales) > 0:
		err = errors.New("it covers several sales, want one")
	case !d.Serial:
		err = errors.New("its calls overlapped, want a run with --serial")
	case d.Answers["0"] > 0:
		err = fmt.Errorf("%d of its calls got no answer, so calls may have overlapped; want a longer --timeout", d.Answers["0"])
	case d.Shop != nil && !slices.Equal(d.Shop.Lacks, shop.Lacks):
		err = fmt.Errorf("its shop lacks %s, want %s", judge.JoinFeatures(d.Shop.Lacks), judge.JoinFeatures(shop.Lacks))
	case d.Shop == nil || d.Shop.String() != shop.String():
		err = fmt.Errorf("it is about %v, want %v", d.Shop, shop)
	}
	if err != nil {
		return "", fmt.Errorf("read the report of the control in %s: %w", dir, err)
	}
	word := "passed"
	if !d.Pass {
		word = "did not pass, so this verdict may be about the adapter"
	}
	return fmt.Sprintf("%s: %s, one at a time (%s)", word, judge.Plural(d.Attempts, "order"), dir), nil
}
