package main

import (
	"fmt"
	"time"

	"flashsale/cmd/flashsale/internal/node/app"
	"flashsale/cmd/flashsale/internal/operate/api"
	"flashsale/loadtest/client"
	"flashsale/loadtest/report"
)

// serverFlags say which server an operator's command asks, and as whom.
type serverFlags struct {
	Target string `default:"http://${addr}" placeholder:"URL" help:"The server ($$FLASHSALE_TARGET). Default ${default}."`
	Secret string `placeholder:"TEXT" help:"The server's secret ($$FLASHSALE_SECRET), which signs this command's token. Default: that of a server on embedded stores."`
}

// tokenTTL is long enough for one command.
const tokenTTL = time.Hour

// as returns a client with a token for subject. What is wrong with the flags is its Fault.
func (f *serverFlags) as(subject string, admin bool) *api.Client {
	verifier, err := signer(f.Secret, 0)
	if err != nil {
		return &api.Client{Fault: err}
	}
	token, err := verifier.Sign(subject, admin, tokenTTL)
	if err != nil {
		return &api.Client{Fault: err}
	}
	return api.New(f.Target, token)
}

func (f *serverFlags) operator() *api.Client { return f.as("operator", true) }

// targetFlag is the flag that has another command ask the server at url.
func targetFlag(url string) string {
	if url == "http://"+app.Vars["addr"] {
		return ""
	}
	return " --target " + client.Printable(url)
}

// answerFlags are those of a command that prints what a server answers.
type answerFlags struct {
	serverFlags `embed:""`
	JSON        bool `name:"json" help:"Print the server's answer as it is: one JSON object."`
}

// print prints names and values, one below the other, or with --json the last answer.
// Where the call failed with err, it only returns that.
func (f *answerFlags) print(s streams, server *api.Client, err error, pairs ...string) error {
	switch {
	case err != nil:
		return err
	case f.JSON:
		_, err = fmt.Fprintf(s.out, "%s\n", server.Last())
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

// moment is a time as a person reads it, or nothing.
func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

// money is an amount of minor units as a person reads it, such as 129.00 EUR.
func money(amount int64, currency string) string {
	decimals := 2
	switch currency { // those that ISO 4217 gives another number
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
