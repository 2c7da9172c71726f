package live

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"strings"
)

//go:embed page
var files embed.FS

// scripts in the order in which they run.
var scripts = []string{"format.js", "api.js", "sale.js", "course.js", "buyer.js", "signin.js", "stream.js"}

// Page returns the page, one file that loads nothing, and the Content-Security-
// Policy under which nothing else runs in it. In demo mode it asks the node for
// tokens.
func Page(demo bool) (html []byte, policy string, err error) {
	style, err := files.ReadFile("page/page.css")
	if err != nil {
		return nil, "", err
	}
	var script bytes.Buffer
	script.WriteString("'use strict';\n(() => {\n")
	for _, name := range scripts {
		part, err := files.ReadFile("page/" + name)
		if err != nil {
			return nil, "", err
		}
		script.Write(part)
	}
	script.WriteString("})();\n")
	page, err := template.ParseFS(files, "page/page.html")
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Demo": demo, "Style": template.CSS(style), "Script": template.JS(script.String()),
	})
	if err != nil {
		return nil, "", err
	}
	return out.Bytes(), strings.Join([]string{
		"default-src 'none'", "connect-src 'self'", "img-src 'self' https: data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		"style-src " + hash(style), "script-src " + hash(script.Bytes()),
	}, "; "), nil
}

// hash is how a policy names the one text that may be.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
