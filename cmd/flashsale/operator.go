package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/report"
)

// serverFlags say which server an operator's command asks, and as whom.
type serverFlags struct {
	Target string `default:"http://${addr}" placeholder:"URL" help:"The server. Default ${default}."`
	Secret string `placeholder:"TEXT" help:"The server's secret, which signs this command's token. Default: that of a server on embedded stores."`
}

// tokenTTL is long enough for one command.
const tokenTTL = time.Hour

// as returns a client with a token for subject.
func (f *serverFlags) as(subject string, admin bool) (*api.Client, error) {
	verifier, err := signer(f.Secret, 0)
	if err != nil {
		return nil, err
	}
	token, err := verifier.Sign(subject, admin, tokenTTL)
	if err != nil {
		return nil, err
	}
	return api.New(f.Target, token)
}

func (f *serverFlags) operator() (*api.Client, error) { return f.as("operator", true) }

// facts prints names and values, one below the other.
func facts(w io.Writer, pairs ...string) error {
	var t report.Text
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			t.Row(pairs[i], printable(pairs[i+1]))
		}
	}
	return t.Write(w)
}

// printable is text of somebody else's for a terminal, which would obey what is
// not printable in it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// moment is a time as a person reads it, or nothing.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

// money is an amount as the API has it: how many minor units make one of the
// currency is not this program's to know.
func money(amount int64, currency string) string {
	return fmt.Sprintf("%d %s, in minor units", amount, currency)
}
