package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"flashsale/loadtest/client"
)

// An Error reports that a server did not answer, or not with a 2xx. Its text is for people and does
// not contain the method and the path of the request.
type Error struct {
	Status  int             // 0 if the server did not answer
	Unsent  bool            // there was no connection
	Code    string          // usage, unreachable or no_answer; empty if the server answered
	Problem json.RawMessage // the problem document of the answer, or nil
	text    string
}

func (e *Error) Error() string { return client.Printable(e.text) }

// As returns the Error that err wraps, or the zero Error.
func As(err error) Error {
	e, _ := errors.AsType[*Error](err)
	return *cmp.Or(e, &Error{})
}

// flags maps fields of the API to flags and arguments with other names.
var flags = map[string]string{
	"image_url": "--image", "per_buyer_limit": "--per-buyer", "closes_at": "--for: closes_at", "payment_window_s": "--payment-window",
	"payment_ref": "--ref", "Idempotency-Key": "--key", "sku": "SKU", "orders": "ID", "total": "the total",
}

// failure returns the error for an answer that is not 2xx.
func (c *Client) failure(res *http.Response, body []byte, what string) error {
	var p struct {
		Code, Detail string
		Errors       []struct{ Field, Detail string }
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		at := cmp.Or(res.Header.Get("Location"), "is it another server, or a proxy?")
		return &Error{Status: res.StatusCode, text: fmt.Sprintf("%s answers %s: %s", c.shown, res.Status, at)}
	}
	text := strings.ReplaceAll(strings.TrimSuffix(p.Detail, "."), "Idempotency-Key", "--key")
	switch {
	case res.StatusCode == http.StatusNotFound && strings.HasPrefix(what, "sale"):
		text = fmt.Sprintf("no %s at %s: `flashsale sale show` lists all sales", what, c.shown)
	case res.StatusCode == http.StatusNotFound && what != "":
		text = cmp.Or(c.Buyer, "the server") + " has no " + what
	case res.StatusCode == http.StatusUnauthorized:
		text = "the server does not accept the token of this command: --secret or FLASHSALE_SECRET must be the server's secret"
	case res.StatusCode == http.StatusForbidden && c.Buyer != "":
		text = "the server takes payments only from its payment provider (serve --pay-scope)"
	case res.StatusCode == http.StatusTooManyRequests:
		text = "too many requests: try again in " + res.Header.Get("Retry-After") + " s"
	}
	for i, f := range p.Errors {
		if i == 0 {
			text = ""
		}
		text += cmp.Or(flags[f.Field], "--"+strings.ReplaceAll(f.Field, "_", "-")) + " " + f.Detail + ". "
	}
	return &Error{Status: res.StatusCode, Problem: body, text: strings.TrimSpace(fmt.Sprintf("%s (%d %s)", strings.TrimSuffix(text, ". "), res.StatusCode, p.Code))}
}

// noAnswer returns the error for a call that the server did not answer.
func noAnswer(server string, err error) error {
	if call, ok := errors.AsType[*url.Error](err); ok {
		err = call.Err // without the method and the path
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &Error{Unsent: true, Code: "unreachable", text: fmt.Sprintf("no server at %s: %s (flashsale serve starts a server)", server, strings.TrimPrefix(op.Err.Error(), "connect: "))}
	}
	return &Error{Code: "no_answer", text: fmt.Sprintf("no answer from %s: %v", server, err)}
}
