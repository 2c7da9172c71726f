package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// Packages that people copy export at most 30 functions, types, methods and fields.
func TestPagesAreShort(t *testing.T) {
	for _, folder := range []string{"orders/lock", "ratelimit", "ratelimit/admission", "ratelimit/httplimit", "ratelimit/limit"} {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.go"))
		names := 0
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			check.Must(t, err)
			if strings.HasSuffix(name, "_test.go") || !ast.FileExports(file) {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl, *ast.TypeSpec:
					names++
				case *ast.StructType:
					names += n.Fields.NumFields()
				case *ast.InterfaceType:
					names += n.Methods.NumFields()
				}
				_, body := n.(*ast.BlockStmt)
				return !body
			})
		}
		if t.Logf("%3d names in %s", names, folder); names < 5 || names > 30 {
			t.Errorf("package %s: got %d exported names, want 5 to 30", folder, names)
		}
	}
}

// For packages that people copy, go doc fits on one screen.
func TestDocIsShort(t *testing.T) {
	for folder, limit := range map[string]int{"orders/lock": 20, "ratelimit": 20, "inventory": 20} {
		cmd := exec.CommandContext(check.Context(t), "go", "doc", "./"+folder)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		check.Must(t, err)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		lines = lines[slices.IndexFunc(lines, declaration.MatchString):]
		if t.Logf("%3d lines of %s", len(lines), folder); len(lines) > limit {
			t.Errorf("go doc: got %d lines of declarations of %s, want at most %d", len(lines), folder, limit)
		}
	}
}

var declaration = regexp.MustCompile(`^(const|var|func|type) `)
