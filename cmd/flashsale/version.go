package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"flashsale/cmd/flashsale/internal/node/app"
)

// version describes the build of this program: version, revision, Go version and platform.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return describe(info)
}

// commandLine returns the command line of this call, for a report. A shell can run it
// again. Secrets and passwords are replaced.
func commandLine(args []string) string {
	line := "flashsale"
	for i, arg := range args {
		if strings.Contains(arg, "://") {
			arg = app.Redact(arg)
		}
		switch {
		case i > 0 && args[i-1] == "--secret":
			arg = "TEXT"
		case strings.HasPrefix(arg, "--secret="):
			arg = "--secret=TEXT"
		case strings.ContainsAny(arg, " \t\n'\"\\$&;|<>()*?#`~"):
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		line += " " + arg
	}
	return line
}

func describe(info *debug.BuildInfo) string {
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	parts := []string{"flashsale"}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		parts[0] += " " + v
	}
	if revision := built["vcs.revision"]; revision != "" {
		text := "revision " + revision[:min(12, len(revision))]
		if at := built["vcs.time"]; at != "" {
			text += " of " + at
		}
		if built["vcs.modified"] == "true" {
			text += ", changed since"
		}
		parts = append(parts, text)
	} else {
		parts = append(parts, "development build without a revision")
	}
	parts = append(parts, fmt.Sprintf("%s %s/%s", info.GoVersion, runtime.GOOS, runtime.GOARCH))
	return strings.Join(parts, ", ")
}
