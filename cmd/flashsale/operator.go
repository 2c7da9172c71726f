package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"flashsale/cmd/flashsale/internal/api"
	"flashsale/cmd/flashsale/internal/auth"
)

// serverFlags say which server an operator's command asks, and as whom.
type serverFlags struct {
	Target string `default:"http://localhost:8080" placeholder:"URL" help:"The server. Default ${default}."`
	Secret string `placeholder:"TEXT" help:"The server's secret, which signs this command's token. Default: that of a server on embedded stores."`
}

// tokenTTL is long enough for one command.
const tokenTTL = time.Hour

// as returns a client with a token for subject.
func (f *serverFlags) as(subject string, admin bool) (*api.Client, error) {
	if f.Secret == "" {
		f.Secret = trialSecret
	}
	verifier, err := auth.New([]byte(f.Secret), nil)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
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
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(tw, "%s\t%s\n", pairs[i], pairs[i+1])
		}
	}
	return tw.Flush()
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
