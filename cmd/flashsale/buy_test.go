package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/servers/servertest/check"
)

// commandsAt returns a function that runs a command against the node and returns its output.
func commandsAt(t *testing.T, node *app.App) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		out, _, err := command(t, append(args, "--target", node.URL())...)
		check.Must(t, err)
		return out
	}
}

// A buyer orders, pays and cancels. The command that buy prints to cancel works.
func TestBuyersCommands(t *testing.T) {
	node := served(t)
	does := commandsAt(t, node)
	does("sale", "create", "sneaker", "--price", "12900", "--total", "10", "--per-buyer", "3")
	order := func(args ...string) (o api.Order) {
		t.Helper()
		check.Must(t, json.Unmarshal([]byte(does(append(args, "--json")...)), &o))
		return o
	}
	first := order("buy", "sneaker", "--quantity", "2", "--buyer", "ann", "--key", "k")
	if second := order("buy", "sneaker", "--quantity", "2", "--buyer", "ann", "--key", "k"); second.ID != first.ID || first.Status != "pending_payment" {
		t.Errorf("two purchases with one key: got orders %+v and %+v, want the same pending order", first, second)
	}
	out := does("buy", "sneaker", "--buyer", "ann")
	contains(t, out, "amount    129.00 EUR")
	_, next, found := strings.Cut(out, "To cancel:  flashsale ")
	if !found || !strings.Contains(next, node.URL()) {
		t.Fatalf("output of flashsale buy: got no command to cancel the order at this server:\n%s", out)
	}
	contains(t, does(strings.Fields(next)...), "cancelled")
	pays := []string{"order", "pay", first.ID, "--buyer", "ann", "--target", node.URL()}
	refuses(t, append(pays, "--ref", "p-0", "--amount", "25799"), "409 amount_mismatch")
	refuses(t, append(pays, "--ref", "p-0", "--currency", "USD"), "409 amount_mismatch")
	if o := order("order", "pay", first.ID, "--buyer", "ann", "--ref", "p-1", "--amount", "25800", "--currency", "EUR"); o.Status != "paid" {
		t.Errorf("flashsale order pay: got order %+v, want status paid", o)
	}
	contains(t, does("order", "show", first.ID, "--buyer", "ann"), "paid", "258.00 EUR")
	contains(t, does("order", "list", "--buyer", "bob"), "bob has no orders")
	contains(t, does("order", "list", "--buyer", "ann"), first.ID+"  sneaker  2         258.00 EUR  paid       20", "cancelled  20")
	for command, field := range map[string]string{"sale show": "sales", "sale show sneaker": "sku", "sale restock sneaker --by 1": "sku", "audit sneaker": "balanced", "order list --buyer ann": "next_cursor"} {
		var answer map[string]any
		check.Must(t, json.Unmarshal([]byte(does(append(strings.Fields(command), "--json")...)), &answer))
		if _, has := answer[field]; !has {
			t.Errorf("flashsale %s --json: got no field %q in %v", command, field, answer)
		}
	}
	for want, args := range map[string]string{
		"buy 99 of sneaker: --quantity must be 1 to 10 units (400 invalid_request)": "buy sneaker --quantity 99",
		"buy 1 of nosuch: no sale nosuch at " + node.URL():                          "buy nosuch",
		"ann has no order none": "order pay none --buyer ann --ref r",
		"409 already_paid":      "order cancel " + first.ID + " --buyer ann",
	} {
		refuses(t, append(strings.Fields(args), "--target", node.URL()), want)
	}
}

// An operator takes paid orders back. The sale is that of the first order, unless --sku names it. A
// repetition succeeds, and an order that is not paid is an error.
func TestOrderVoid(t *testing.T) {
	node := served(t)
	does := commandsAt(t, node)
	does("sale", "create", "sneaker", "--price", "12900", "--total", "10", "--per-buyer", "3")
	id, open := buys(t, node, "ann", "sneaker", 2), buys(t, node, "bob", "sneaker", 1)
	does("order", "pay", id, "--buyer", "ann", "--ref", "p-1")
	contains(t, does("order", "void", id, "--reason", "bots"), id+"  voided")
	contains(t, does("order", "void", id, id, "--sku", "sneaker"), id+"  already_voided")
	contains(t, does("order", "void", id, "--json"), `{"voided":[],"skipped":[{"id":"`+id+`","why":"already_voided"}]}`)
	contains(t, does("order", "show", id, "--buyer", "ann"), "cancelled", "paid ", "closed ")
	out, _, err := command(t, "order", "void", id, open, "none", "--target", node.URL())
	contains(t, out, id+"  already_voided", open+"  pending_payment", "none ")
	contains(t, fmt.Sprint(err), "take back orders of sneaker: 2 of 3 are not paid orders of this sale")
	for want, args := range map[string]string{
		"the server has no order none": "order void none",
		"400 invalid_request":          "order void " + id + " --reason ",
	} {
		refuses(t, append(strings.Split(args, " "), "--target", node.URL()), want)
	}
}

// orderOf starts a server that responds to each request with the next of answers, an HTTP
// status and the status of the order. It appends the requests to asked.
func orderOf(t *testing.T, asked *[]string, answers ...string) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Idempotency-Key")))
		if len(answers) == 0 {
			t.Error("flashsale orders of the buyer: got no orders in the answer, perhaps because of a rate limit, want at least one")
			return
		}
		var code int
		var status string
		_, err := fmt.Sscan(answers[0], &code, &status)
		check.Must(t, err)
		answers = answers[1:]
		w.Header().Set("Location", "/v1/orders/o1?sku=S&key=K")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"id":"o1","sku":"S","status":%q,"reason":"sold_out","code":%q,"idempotency_key":"K"}`, status, status)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// buy repeats the request with the same key until the order is accepted or refused.
func TestBuyWaitsForDecision(t *testing.T) {
	for _, c := range []struct {
		answers []string
		want    string
	}{
		{[]string{"202 reserved", "503 unavailable", "202 reserved", "201 pending_payment"}, ""},
		{[]string{"202 reserved", "409 sold_out"}, "409 sold_out"},
		{[]string{"202 reserved", "404 not_found"}, "buy 1 of S: no sale S at http"},
		{[]string{"503 unavailable"}, "repeat the command with --key K)"},
		{[]string{"409 sold_out"}, "409 sold_out"},
	} {
		var asked []string
		_, _, err := command(t, "buy", "S", "--key", "K", "--target", orderOf(t, &asked, c.answers...))
		if (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) || len(asked) != len(c.answers) {
			t.Errorf("flashsale buy with the answers %v: got error %v after %d calls, want %q after one call per answer", c.answers, err, len(asked), c.want)
		}
		if slices.ContainsFunc(asked, func(call string) bool { return call != "POST /v1/orders K" }) {
			t.Errorf("flashsale buy: got requests %s, want only POST /v1/orders with the key K", asked)
		}
		if strings.Contains(fmt.Sprint(err), "sold_out (") {
			t.Errorf("flashsale buy after a final refusal: got an error that suggests to repeat the command, want none of that: %v", err)
		}
	}
}

// Without --buyer, order show calls the operators' route and prints the key.
func TestOrderShowAsOperator(t *testing.T) {
	var asked []string
	out, _, err := command(t, "order", "show", "o1", "--target", orderOf(t, &asked, "200 paid"))
	check.Must(t, err)
	if contains(t, out, "key       K"); asked[0] != "GET /v1/admin/orders/o1" {
		t.Errorf("flashsale order show --admin: got requests %q, want first GET /v1/admin/orders/o1", asked)
	}
}

// A response with status 200 but without the fields of the contract is an error. A redirect
// is not followed, because it would turn a POST into a GET. Control characters in a
// response do not reach the terminal.
func TestUnexpectedResponses(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://shop.test"+r.URL.Path)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	for _, c := range []struct {
		status        int
		body, command string
		want          string
	}{
		{200, `{}`, "buy S", "buy 1 of S: the answer of " + server.URL + " is not one of flashsale"},
		{200, `null`, "order pay x --buyer ann --ref r", "is not one of flashsale"},
		{200, `[]`, "order show x", "is not one of flashsale"},
		{200, `{}`, "sale close S", "is not one of flashsale"},
		{200, `{}`, "sale show", "is not one of flashsale: it has no \"sales\""},
		{200, `{}`, "sale show S", "is not one of flashsale"},
		{200, `{"sales":null}`, "sale show", "is not one of flashsale"},
		{200, `{}`, "order list --buyer ann", "is not one of flashsale: it has no \"orders\""},
		{200, `{}`, "audit S", "is not one of flashsale"},
		{301, ``, "buy S", "answers 301 Moved Permanently: https://shop.test/v1/orders"},
		{409, `{"code":"\u001b[2J","detail":"\u0007x"}`, "sale show S", "\ufffdx (409 \ufffd[2J)"},
	} {
		status, body = c.status, c.body
		refuses(t, append(strings.Fields(c.command), "--target", server.URL), c.want)
	}
}
