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
// error that wraps it names the program and what to install.
var ErrNotInstalled = errors.New("servers: not installed")

// searchPath is $PATH and then where distributions put servers: a plain user's
// PATH rarely holds the sbin folders.
func searchPath() []string {
	return append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin")
}

// find returns the first of the programs that is in one of the folders, or in
// searchPath if no folders are given. An earlier folder wins over an earlier
// name: whoever has two kinds of a server chooses by $PATH.
func find(folders []string, install string, programs ...string) (string, error) {
	if len(folders) == 0 {
		folders = searchPath()
	}
	for _, folder := range folders {
		if folder == "" {
			continue // an empty entry of $PATH means the current folder, which we don't run things from
		}
		for _, program := range programs {
			// LookPath on a path with a slash tests just that file, its execute bit included.
			if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%w: no %s in %s; try: %s", ErrNotInstalled,
		strings.Join(programs, " or "), strings.Join(folders, string(filepath.ListSeparator)), install)
}
