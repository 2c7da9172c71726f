package main

import (
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/feed/webhooks"
	"flashsale/orders/store"
)

// An operator lists the webhooks and resumes a stopped one. The command for the secret prints the
// secret that signs.
func TestWebhookCommands(t *testing.T) {
	out, _, err := command(t, "webhook", "secret", "shop", "--secret", nodesSecret)
	if want := webhooks.Secret([]byte(nodesSecret), "shop") + "\n"; err != nil || out != want {
		t.Errorf("flashsale webhook secret: got %q, error %v, want %q", out, err, want)
	}
	dsn := servertest.OpenSQL(t, servers.KindEmbedded)
	st, err := store.Open(dsn, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	check.Must(t, check.Err(st.Migrate(t.Context())))
	refuses(t, []string{"webhook", "resume", "shop", "--mysql", dsn}, "--webhook shop=URL", "does not exist")
	row, now, err := st.Webhook(t.Context(), "shop")
	check.Must(t, err)
	gone := row
	gone.Failures, gone.Stopped, gone.LastError, gone.NextAt = 3, true, "answered 410 \x1b[31m", now.Add(time.Hour)
	check.Must(t, check.Err(st.SwapWebhook(t.Context(), row, gone)))
	list := func(want ...string) {
		t.Helper()
		out, _, err := command(t, "webhook", "list", "--mysql", dsn)
		check.Must(t, err)
		contains(t, out, want...)
		if strings.Contains(out, "\x1b") {
			t.Errorf("flashsale webhook list: got the invisible character of the error in %q", out)
		}
	}
	list("shop", "stopped", "3", "answered 410 \ufffd[31m")
	refuses(t, []string{"webhook", "resume", "shop", "--after", "forged", "--mysql", dsn}, "after")
	for _, after := range [][]string{nil, {"--after="}} {
		out, _, err := command(t, append([]string{"webhook", "resume", "shop", "--mysql", dsn}, after...)...)
		if check.OK(t, err); !strings.Contains(out, "shop continues") {
			t.Errorf("flashsale webhook resume %s: got %q, want that it continues", after, out)
		}
	}
	list("shop", "up", "0")
}
