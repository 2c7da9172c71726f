package app

import (
	"html"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// Each command of /docs works when it is pasted into a shell.
func TestDocsCanBePasted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.Demo, c.Changes = true, true })
	page := string(n.send("GET", "/docs", "", "").ok().body)
	// The stream of a sale ends when its reader exits, here after the first line. A client
	// repeats a call that was answered with 503.
	script := []string{`set -e
		curl() {
			echo curl "$@" >&2
			if [[ $* == */v1/live* ]]; then command curl -sSN --fail "$@" 2>/dev/null | grep -q ^retry; else command curl -sS --retry 9 --fail-with-body "$@"; fi
		}`}
	var newest, put, order string
	for _, pre := range regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindAllStringSubmatch(page, -1) {
		line := html.UnescapeString(pre[1])
		switch {
		case strings.Contains(line, "flashsale token"): // signs with the server's secret
		case strings.Contains(line, "/demo/crowd"): // would order in parallel to the script
		case strings.HasPrefix(line, "ORDER="):
			newest = line
		case strings.HasPrefix(line, "curl -X PUT"): // opens the sale, so it comes first
			// The same buyer orders again, possibly before a cancelled unit is released.
			put = strings.Replace(line, `"per_buyer_limit": 2`, `"per_buyer_limit": 9`, 1)
		case strings.HasPrefix(line, "curl -X POST") && strings.Contains(line, `"quantity"`):
			order = line
		default:
			script = append(script, line)
		}
	}
	for i, line := range script {
		switch {
		case strings.HasPrefix(line, "BUYER="):
			script[i] = strings.Join([]string{line, put, order, newest}, "\n")
		case strings.Contains(line, "POST") && strings.Contains(line, "$ORDER"): // pays or cancels, so it needs a new order
			script[i] = order + "\n" + newest + "\n" + line
		}
	}
	if len(script) < 20 || !strings.Contains(put, `: 9`) || order == "" || newest == "" {
		t.Fatalf("script of /docs: got %d commands, want 20 or more: %q", len(script), script)
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(script, "\n")).CombinedOutput()
	if err != nil {
		t.Errorf("script of /docs: a command failed with error %v:\n%s", err, out)
	}
}
