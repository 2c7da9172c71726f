package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"flashsale/loadtest"
	"flashsale/loadtest/servers/servertest/check"
)

// refusing starts a server that answers each request with status and body.
func refusing(t *testing.T, status int, body string) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The text of an error names flags and no fields of the API, no method and no path.
func TestErrorsAreForPeople(t *testing.T) {
	for _, c := range []struct {
		status              int
		body, command, want string
	}{
		{400, `{"code":"invalid_request","errors":[{"field":"per_buyer_limit","detail":"is bad"},{"field":"opens_at","detail":"is odd"}]}`,
			"sale create S --price 1 --total 1", "--per-buyer is bad. --opens-at is odd (400 invalid_request)"},
		{401, `{"code":"unauthorized"}`, "audit S", "--secret or FLASHSALE_SECRET must be the server's secret (401 unauthorized)"},
		{403, `{"code":"forbidden"}`, "order pay x --buyer ann --ref r", "only from its payment provider (serve --pay-scope)"},
		{404, `{"code":"not_found"}`, "sale close S", "no sale S at http"},
		{404, `{"code":"not_found"}`, "order cancel x --buyer ann", "ann has no order x"},
		{422, `{"code":"idempotency_mismatch","detail":"This Idempotency-Key was used."}`, "buy S", "buy 1 of S: This --key was used (422 idempotency_mismatch)"},
		{429, `{"code":"rate_limited"}`, "buy S", "too many requests: try again in 7 s"},
		{502, `<html>`, "sale show", "answers 502 Bad Gateway: is it another server, or a proxy?"},
	} {
		url := refusing(t, c.status, c.body)
		_, _, err := command(t, append(strings.Fields(c.command), "--target", url)...)
		if text := fmt.Sprint(err); !strings.Contains(text, c.want) || strings.Contains(text, "/v1/") {
			t.Errorf("flashsale %s: got error %q, want %q and no path", c.command, text, c.want)
		}
	}
	refuses(t, []string{"sale", "show", "--target", "http://u:hush@127.0.0.1:1"}, "no server at http://u:xxxxx@127.0.0.1:1: connection refused")
}

// With --json, an error is the server's problem document or one of the command, with the text of the
// error as message.
func TestErrorsAsJSON(t *testing.T) {
	problem := `{"type":"about:blank","status":409,"code":"sold_out","detail":"Fewer are left."}`
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(silent.Close)
	for line, want := range map[string]string{
		"buy S --target " + refusing(t, 409, problem): `{"code":"sold_out","detail":"Fewer are left.","message":"buy 1 of S: Fewer are left (409 sold_out)","status":409,"type":"about:blank"}`,
		"buy S --target http://127.0.0.1:1":           `{"code":"unreachable","message":"no server at http://127.0.0.1:1: connection refused (flashsale serve starts a server)"}`,
		"audit S --target " + silent.URL:              `{"code":"no_answer","message":"no answer from ` + silent.URL + `: EOF"}`,
		"buy S --target nowhere":                      `{"code":"usage","message":"the target \"nowhere\" is not an http or https URL, such as http://localhost:8080"}`,
		"order pay x --buyer ann":                     `{"code":"usage","message":"missing: --ref=TEXT (flashsale order pay --help)"}`,
		"buy S --nonsense":                            `{"code":"usage","message":"unknown flag --nonsense (flashsale buy --help)"}`,
		"demo --stock 0":                              `{"code":"usage","message":"--stock: 0, want at least 1"}`,
	} {
		out, stderr, err := command(t, append(strings.Fields(line), "--json")...)
		var exit exitCode
		if !errors.As(err, &exit) || exit != 3 || out != "" || stderr != want+"\n" {
			t.Errorf("flashsale %s --json: got error %v, output %q and %q, want exit status 3 and %s", line, err, out, stderr, want)
		}
	}
	_, stderr, err := command(t, "audit", "S", "--json", "--target", refusing(t, 200, `{"sku":"S"}`)) // units do not add up
	if !errors.Is(err, exitCode(1)) || stderr != "" {
		t.Errorf("flashsale audit --json of a broken sale: got error %v, output %q, want exit status 1 and no problem", err, stderr)
	}
}

// --log-level DEBUG prints method, URL and status of the requests.
func TestDebugPrintsRequests(t *testing.T) {
	url := refusing(t, 404, `{"code":"not_found"}`)
	for level, want := range map[string]bool{"INFO": false, "DEBUG": true} {
		out, _ := exec.CommandContext(check.Context(t), os.Args[0], "sale", "show", "S", "--target", url, "--log-level", level).CombinedOutput()
		contains(t, string(out), "no sale S at "+url)
		if got := strings.Contains(string(out), "method=GET url="+url+"/v1/sales/S status=404"); got != want {
			t.Errorf("flashsale sale show --log-level %s: got the request %t, want %t:\n%s", level, got, want, out)
		}
	}
}

// Every field of an attack that has a flag is named by that flag in an error.
func TestAttackErrorsNameFlags(t *testing.T) {
	own := map[string]string{"Limit": "UnitsPerBuyer"} // fields with another name than the flag
	config := reflect.TypeFor[loadtest.Config]()
	for f := range reflect.TypeFor[attackFlags]().Fields() {
		name := f.Name
		if of, ok := own[name]; ok {
			name = of
		}
		if _, ok := config.FieldByName(name); !ok || slices.Contains([]string{"Scenario", "Seed", "FailIf"}, name) || f.Tag.Get("enum") != "" { // never invalid here
			continue
		}
		if got := fieldFlags.Replace(name); !strings.HasPrefix(got, "--") {
			t.Errorf("error about field %s: got %q, want its flag", name, got)
		}
	}
}
