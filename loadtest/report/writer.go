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
	"unicode"
)

// JSON writes v as indented JSON. It does not escape <, > and &, so that texts are readable in a
// terminal.
func JSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("write the JSON report: %w", err)
	}
	return nil
}

// Text builds a text of lines and tables. The zero value is an empty text.
type Text struct {
	text  strings.Builder
	table *tabwriter.Writer // the table to which Row adds; nil if there is none
}

// Line ends the current table and adds a line.
func (t *Text) Line(format string, args ...any) {
	t.end()
	for i, arg := range args {
		args[i] = printable(arg)
	}
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// printable replaces the characters of a text that are not printable. Names and ids come from the
// server, and a terminal would interpret them.
func printable(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}

// Row adds a row to the current table. The first Row after a Line begins a new table.
func (t *Text) Row(cells ...any) {
	if t.table == nil {
		t.table = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	}
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.table, "\t")
		}
		fmt.Fprint(t.table, printable(cell))
	}
	fmt.Fprintln(t.table)
}

func (t *Text) end() {
	if t.table != nil {
		_ = t.table.Flush() // writes to memory and cannot fail
		t.table = nil
	}
}

// Write writes the text to w.
func (t *Text) Write(w io.Writer) error {
	t.end()
	if _, err := io.WriteString(w, t.text.String()); err != nil {
		return fmt.Errorf("write the text report: %w", err)
	}
	return nil
}

// CheckDir returns an error if no report can be saved in dir. It creates dir if necessary.
func CheckDir(dir string) error {
	path, nothing := filepath.Join(dir, ".check"), func(io.Writer) error { return nil }
	if err := cmp.Or(os.MkdirAll(dir, 0o755), saveFile(path, nothing), os.Remove(path)); err != nil {
		return fmt.Errorf("save the report in %s: %w", dir, err)
	}
	return nil
}

// Save writes the files, by their names, into dir, which it creates if necessary.
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
	return errors.Join(write(f), f.Close()) // Close reports a full disk
}
