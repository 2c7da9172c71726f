package main

import (
	"cmp"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/loadtest/servers/servertest/check"
)

// The log of the settings contains all flags, but no secret.
func TestSettingsHideSecrets(t *testing.T) {
	t.Setenv("FLASHSALE_SECRET", "hush-hush-1")
	parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
	check.Must(t, err)
	k, err := parser.Parse([]string{"serve", "--redis", "redis://app:hush-hush-2@r:1/0", "--mysql", "app:hush-hush-3@tcp(m:1)/db",
		"--changes", "--webhook", "shop=https://a/?token=hush-hush-6", "--lock-servers", "redis://:hush-hush-4@a:1,redis://:hush-hush-5@b:1", "--limit-buyer", "7/s:9", "--no-demo"})
	check.Must(t, err)
	var line strings.Builder
	for _, attr := range settings(k) {
		line.WriteString(attr.(interface{ String() string }).String() + " ")
	}
	got := line.String()
	if strings.Contains(got, "hush") || strings.Contains(got, "clock-off") {
		t.Errorf("logged settings: got a secret or a hidden flag in: %s", got)
	}
	contains(t, got, "addr=127.0.0.1:8080 ", "redis=redis://app:***@r:1/0 ", "mysql=app:***@tcp(m:1)/db ", "secret=*** ", "webhook=*** ",
		"@a:1 redis://:***@b:1] ", "limit-buyer=7/s:9 ", "demo=false ", "lease=5s ", "limit-when-redis-down=map[pay:open place:local read:local] ")
}

// A carriage return, as in a file with Windows line ends, is refused in every setting of serve,
// and the error names the setting.
func TestCarriageReturnIsRefused(t *testing.T) {
	for _, f := range flagsOf(t, "serve") {
		if f.Name == "help" {
			continue
		}
		value := cmp.Or(f.Default, "value")
		for name, attr := range app.Vars {
			value = strings.ReplaceAll(value, "${"+name+"}", attr)
		}
		if f.IsBool() {
			value = "true"
		}
		for _, text := range []string{value + "\r", "x\r," + value} {
			parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
			check.Must(t, err)
			t.Setenv(f.Envs[0], text)
			k, err := parser.Parse([]string{"serve"})
			if err == nil {
				err = checkSettings(k)
			}
			if err == nil || !strings.Contains(err.Error(), "--"+f.Name) && !strings.Contains(err.Error(), f.Envs[0]) {
				t.Errorf("setting %s=%q: got error %v, want one that names it", f.Envs[0], text, err)
			}
			check.Must(t, os.Unsetenv(f.Envs[0]))
		}
	}
}

// flagsOf returns the flags of a command.
func flagsOf(t *testing.T, command string) []*kong.Flag {
	t.Helper()
	parser, err := newParser(&commands{}, io.Discard, io.Discard, func(int) {})
	check.Must(t, err)
	i := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == command })
	return parser.Model.Children[i].Flags
}

// All flags whose help mentions a secret, a password or URLs have the tag secret.
func TestSecretFlagsAreMarked(t *testing.T) {
	for _, f := range flagsOf(t, "serve") {
		help := strings.ToLower(f.Help + f.Name)
		if (strings.Contains(help, "secret") || strings.Contains(help, "password") || strings.Contains(help, "urls of")) && f.Tag.Get("secret") == "" {
			t.Errorf("flag --%s: got no tag secret, so its value is logged", f.Name)
		}
	}
}

// The command line in a report is quoted for a shell and contains no secret.
func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"loadtest", "--secret", "hush", "--secret=hush", "--scenario", "it's mine.yaml", "--target=http://u:hush@host", "--quiet"})
	if want := `flashsale loadtest --secret TEXT --secret=TEXT --scenario 'it'\''s mine.yaml' '--target=http://u:***@host' --quiet`; got != want {
		t.Errorf("command line: got %s, want %s", got, want)
	}
}

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-27T09:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	info.Main.Version = "v1.2.3"
	if got := describe(info); !strings.HasPrefix(got, "flashsale v1.2.3, revision 0123456789ab of 2026-11-27T09:00:00Z, changed since, go1.26.8 ") {
		t.Errorf("version of the program: got %q, want version, revision, time and Go version", got)
	}
	if got := describe(&debug.BuildInfo{GoVersion: "go1.26.8"}); !strings.HasPrefix(got, "flashsale, development build without a revision, go1.26.8 ") {
		t.Errorf("version of a development build: got %q, want it without a revision", got)
	}
	for _, arg := range []string{"--version", "version"} {
		out, _, err := command(t, arg)
		if err != nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, "go1.") {
			t.Errorf("flashsale %s: got error %v, output %q, want one line with the Go version", arg, err, out)
		}
	}
}
