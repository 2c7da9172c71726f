package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// copied are the folders whose READMEs have a section "Copy it".
var copied = []string{"orders/lock", "ratelimit", "inventory", "orders", "loadtest"}

const copySection = "Copy it"

// copyPath is the path of the module into which TestCopy copies. It is not the path in the
// documents, so a command that ignores the variable SHOP fails.
const copyPath = "example.com/copy"

// The commands of "Copy it" create a module that does not import this module. Its examples
// pass. With FLASHSALE_TEST_README=full, all its tests pass.
func TestCopy(t *testing.T) {
	mode := os.Getenv(runReadme)
	if mode == "" {
		t.Skip(runReadme + " is not set: it builds five modules")
	}
	here, err := filepath.Abs(root)
	check.Must(t, err)
	beside := t.TempDir()
	check.Must(t, os.Symlink(here, filepath.Join(beside, "flashsale")))
	// All copies use the same path, so that Go's caches work for packages in several copies.
	shop := filepath.Join(beside, "shop")
	for _, folder := range copied {
		t.Run(folder, func(t *testing.T) {
			check.Must(t, os.RemoveAll(shop))
			check.Must(t, os.Mkdir(shop, 0o755))
			runInCopy(t, shop, "go mod init "+copyPath)
			_, text, _ := strings.Cut(read(t, folder+"/README.md"), "\n## "+copySection+"\n")
			text, _, _ = strings.Cut(text, "\n## ")
			commands := prompts.FindAllStringSubmatch(text, -1)
			if len(commands) == 0 {
				t.Fatalf("README section %q: got no commands, want at least one", copySection)
			}
			var lines []string
			for _, c := range commands {
				if mode != "full" {
					c[1] = strings.Replace(c[1], "go test ./", "go test -run ^Example ./", 1)
				}
				lines = append(lines, strings.Replace(c[1], "SHOP=example.com/shop", "SHOP="+copyPath, 1))
			}
			runInCopy(t, shop, strings.Join(lines, " &&\n"))
			runInCopy(t, shop, "cmp "+folder+"/README.md ../flashsale/"+folder+"/README.md") // only Go files are changed
			runInCopy(t, shop, `! grep -rnE '"flashsale/|^module flashsale' --include=*.go --include=go.mod .`)
		})
	}
}

// runInCopy runs a shell command in the copy, with embedded stores only.
func runInCopy(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.CommandContext(check.Context(t), "bash", "-x", "-o", "pipefail", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(withoutOurVariables(os.Environ()), "GOWORK=off", "GOFLAGS=-mod=mod -short", "FLASHSALE_TEST_REAL=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("command of the README in a copy: $ %s\nfailed with error %v:\n%s", line, err, out)
	}
}
