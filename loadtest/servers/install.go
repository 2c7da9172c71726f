package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled means that a server program is not installed on this machine. The
// error that wraps it names the program and the package to install.
var ErrNotInstalled = errors.New("servers: the program is not installed")

// searchPath returns the folders of $PATH, followed by folders in which distributions
// install servers. The PATH of an ordinary user rarely contains the sbin folders.
func searchPath() []string {
	return append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin")
}

// find returns the first of the programs that is in one of the folders, or in
// searchPath if there are no folders. The order of folders takes precedence over the
// order of programs, so $PATH selects one of two installed servers.
func find(folders []string, install string, programs ...string) (string, error) {
	if len(folders) == 0 {
		folders = searchPath()
	}
	for _, folder := range folders {
		if folder == "" {
			continue // an empty entry of $PATH means the current folder, whose programs must not be run
		}
		for _, program := range programs {
			// If the path contains a slash, LookPath checks only that file, and that it
			// is executable.
			if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%w: found no %s in %s: install it with %s", ErrNotInstalled,
		strings.Join(programs, " or "), strings.Join(folders, string(filepath.ListSeparator)), install)
}
