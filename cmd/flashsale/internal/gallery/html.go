package gallery

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed compare.html
var pageText string

var pageTemplate = template.Must(template.New("compare.html").Funcs(template.FuncMap{
	"thousands": thousands,
	"said":      func(r Row) string { return r.said() },
	"expected":  func(r Row) bool { return r.AsExpected() },
	"passed":    func(r Row) bool { return r.Error == "" && r.Passed == r.Rounds },
}).Parse(pageText))

// WriteHTML writes the report as one page that loads nothing from anywhere.
func (r *Report) WriteHTML(w io.Writer) error {
	var picture strings.Builder
	if err := r.WriteSVG(&picture); err != nil {
		return err
	}
	ratio, than := r.Ratio()
	view := struct {
		*Report
		Picture       template.HTML // our own, and its texts are names and figures
		Ratio         float64
		Than          string
		Circumstances string
	}{r, template.HTML(picture.String()), ratio, than, r.circumstances()}
	if err := pageTemplate.Execute(w, view); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Save writes compare.html, compare.svg, compare.json and compare.txt into dir,
// which it creates if need be.
func (r *Report) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save the report: %w", err)
	}
	var errs []error
	for name, write := range map[string]func(io.Writer) error{
		"compare.html": r.WriteHTML, "compare.svg": r.WriteSVG, "compare.json": r.WriteJSON, "compare.txt": r.WriteText,
	} {
		var text strings.Builder
		err := write(&text)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
