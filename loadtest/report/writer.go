package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// JSON writes v as JSON, on one line. It does not escape <, > and &: people read
// the texts in it in a terminal, too.
func JSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("write the JSON report: %w", err)
	}
	return nil
}

// Text collects a report for people: lines, with tables between them. The zero
// value is an empty text.
type Text struct {
	text  strings.Builder
	table *tabwriter.Writer // nil: none is open
}

// Line ends the table before it and adds a line.
func (t *Text) Line(format string, args ...any) {
	t.end()
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// Row adds a row to a table, which lasts until the next Line.
func (t *Text) Row(cells ...any) {
	if t.table == nil {
		t.table = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	}
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.table, "\t")
		}
		fmt.Fprint(t.table, cell)
	}
	fmt.Fprintln(t.table)
}

func (t *Text) end() {
	if t.table != nil {
		_ = t.table.Flush() // into memory
		t.table = nil
	}
}

// Write writes the whole text to w.
func (t *Text) Write(w io.Writer) error {
	t.end()
	if _, err := io.WriteString(w, t.text.String()); err != nil {
		return fmt.Errorf("write the text report: %w", err)
	}
	return nil
}

// CheckDir returns why no report can be saved in dir, which it creates if need be.
func CheckDir(dir string) error {
	path, nothing := filepath.Join(dir, ".check"), func(io.Writer) error { return nil }
	if err := cmp.Or(os.MkdirAll(dir, 0o755), saveFile(path, nothing), os.Remove(path)); err != nil {
		return fmt.Errorf("save the report in %s: %w", dir, err)
	}
	return nil
}

// Save writes files, by their names, into dir, which it creates if need be.
func Save(dir string, files map[string]func(io.Writer) error) error {
	if err := CheckDir(dir); err != nil {
		return err
	}
	for name, write := range files {
		if err := saveFile(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("save the report in %s: write %s: %w", dir, name, err)
		}
	}
	return nil
}

func saveFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close()) // a full disk shows when it is closed
}
