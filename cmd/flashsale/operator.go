package main

import (
	"fmt"
	"log/slog"
	"time"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
)

// serverFlags holds the server and the secret of a command that calls a server.
type serverFlags struct {
	Target   string     `default:"http://${addr}" placeholder:"URL" help:"URL of the server ($$FLASHSALE_TARGET). Default ${default}."`
	Secret   string     `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET), to sign the token of this command. Default: the secret of a server on embedded stores."`
	LogLevel slog.Level `default:"INFO" help:"Lowest level of the log messages to print. DEBUG prints method, URL and status of each request. Default ${default}."`
}

// AfterApply applies --log-level to the default logger.
func (f *serverFlags) AfterApply() error {
	slog.SetLogLoggerLevel(f.LogLevel)
	return nil
}

// tokenTTL is the lifetime of the token of a command that sends a few requests. It is short,
// because the server may have a short --token-life.
const tokenTTL = 5 * time.Minute

// as returns a client with a token for subject. If the flags are invalid, the Fault of
// the client is set, and all its calls return it.
func (f *serverFlags) as(subject string, admin bool) *api.Client {
	verifier, err := signer(f.Secret, 0)
	if err != nil {
		return &api.Client{Fault: err}
	}
	token, err := verifier.Sign(subject, admin, tokenTTL)
	if err != nil {
		return &api.Client{Fault: err}
	}
	server := api.New(f.Target, token)
	if !admin {
		server.Buyer = subject
	}
	return server
}

func (f *serverFlags) operator() *api.Client { return f.as("operator", true) }

// targetFlag returns the flag that directs a printed command to the server at url. It
// is empty for the default server.
func targetFlag(url string) string {
	if url == "http://"+app.Vars["addr"] {
		return ""
	}
	return " --target " + client.Printable(url)
}

// answerFlags holds the flags of a command that prints a server's response.
type answerFlags struct {
	serverFlags `embed:""`
	JSON        bool `name:"json" help:"Print the server's response unchanged, as one JSON object."`
}

// print prints pairs of name and value, one pair per line, without empty values. With
// --json it prints the last response instead. If err is not nil, print only returns err.
func (f *answerFlags) print(s streams, server *api.Client, err error, pairs ...string) error {
	switch {
	case err != nil:
		return err
	case f.JSON:
		_, err = fmt.Fprintf(s.out, "%s\n", server.LastResponse())
		return err
	}
	var t report.Text
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			t.Row(pairs[i], client.Printable(pairs[i+1]))
		}
	}
	return t.Write(s.out)
}

// moment formats a time for people. A nil or zero time is "".
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

// money formats an amount of minor units for people, such as 129.00 EUR.
func money(amount int64, currency string) string {
	decimals := 2
	switch currency { // the currencies of ISO 4217 that do not have two decimals
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return fmt.Sprint(amount, " ", currency)
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		decimals = 3
	case "CLF", "UYW":
		decimals = 4
	}
	digits := fmt.Sprintf("%0*d", decimals+1, amount)
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:] + " " + currency
}
