package live

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"strings"
)

//go:embed page
var files embed.FS

// BuyersPage returns the page of buyers and its Content-Security-Policy. The page is one file
// that loads no other files. The policy allows only its own script and style. If demo is
// true, the page requests tokens from the node.
func BuyersPage(demo bool) (html []byte, policy string, err error) {
	return page(map[string]any{"Demo": demo}, "page.html", []string{"base.css", "page.css"}, []string{"format.js", "api.js", "listen.js", "sale.js", "history.js", "buyer.js", "signin.js", "stream.js"})
}

// OperatorsPage returns the page of operators and its Content-Security-Policy, like BuyersPage.
// traceURL is the address of an order's traces, in which {order} stands for the order's ID. It is
// empty if the page shows no links to traces.
func OperatorsPage(demo bool, traceURL string) (html []byte, policy string, err error) {
	return page(map[string]any{"Demo": demo, "TraceURL": traceURL}, "ops.html", []string{"uplot/uPlot.min.css", "base.css", "ops.css"},
		[]string{"uplot/uPlot.iife.min.js", "format.js", "api.js", "listen.js", "charts.js", "ops.js", "acts.js"})
}

// page renders a page. The scripts run in the given order, in one function scope.
func page(data map[string]any, name string, styles, scripts []string) (html []byte, policy string, err error) {
	style, noStyle := joined(styles)
	script, noScript := joined(scripts)
	page, err := template.ParseFS(files, "page/"+name)
	if err := errors.Join(noStyle, noScript, err); err != nil {
		return nil, "", err
	}
	script = "'use strict';\n(() => {\n" + script + "})();\n"
	var out bytes.Buffer
	data["Style"], data["Script"] = template.CSS(style), template.JS(script)
	if err = page.Execute(&out, data); err != nil {
		return nil, "", err
	}
	return out.Bytes(), strings.Join([]string{
		"default-src 'none'", "connect-src 'self'", "img-src 'self' https: data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		"style-src " + hash(style), "script-src " + hash(script),
	}, "; "), nil
}

func joined(names []string) (all string, err error) {
	for _, name := range names {
		part, err := files.ReadFile("page/" + name)
		if err != nil {
			return "", err
		}
		all += string(part)
	}
	return all, nil
}

// hash returns the source expression of a policy that allows exactly this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
