package web

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"sort"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/goccy/go-yaml"
)

// OpenAPI is the contract in machine-readable form, as GET /openapi.yaml has
// it. Tests hold the routes and every answer to it.
//
//go:embed openapi.yaml
var OpenAPI []byte

//go:embed description.html
var descriptionHTML string

// describe serves the contract, for machines and for people.
func (s *Server) describe() error {
	page, err := readable(OpenAPI)
	if err != nil {
		return fmt.Errorf("openapi.yaml: %w", err)
	}
	s.engine.GET("/openapi.yaml", func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml", OpenAPI) })
	s.engine.GET("/docs", func(c *gin.Context) {
		// One file: it loads nothing, from here or from elsewhere.
		c.Header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
		c.Data(http.StatusOK, "text/html; charset=utf-8", page)
	})
	return nil
}

// What the page shows of the description; a reference is looked up by name.
type (
	description struct {
		Info       struct{ Title, Version, Description string }
		Tags       []struct{ Name, Description string }
		Paths      map[string]pathItem
		Components struct {
			Parameters map[string]parameter
			Responses  map[string]response
			Schemas    map[string]schema
		}
	}
	pathItem struct {
		Parameters     []parameter
		Get, Post, Put *operation
	}
	operation struct {
		Method, Path         string `yaml:"-"`
		Tags                 []string
		Summary, Description string
		Security             []map[string][]string
		Parameters           []parameter
		RequestBody          struct {
			Content map[string]struct{ Schema schema }
		} `yaml:"requestBody"`
		Responses map[string]response
	}
	parameter struct {
		Ref                   string `yaml:"$ref"`
		Name, In, Description string
	}
	response struct {
		Ref         string `yaml:"$ref"`
		Description string
	}
	schema struct {
		Ref               string `yaml:"$ref"`
		Type, Description string
		Enum              []string
		Properties        map[string]schema
	}
)

// readable is the description as a page.
func readable(text []byte) ([]byte, error) {
	var d description
	if err := yaml.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	page, err := template.New("docs").Funcs(template.FuncMap{"prose": prose, "last": last}).Parse(descriptionHTML)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, &d)
	return out.Bytes(), err
}

// Operations are those under one tag, by path.
func (d *description) Operations(tag string) []operation {
	var list []operation
	for path, item := range d.Paths {
		for method, op := range map[string]*operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put} {
			if op == nil || op.Tags[0] != tag {
				continue
			}
			one := *op
			one.Method, one.Path = method, path
			one.Parameters = nil
			for _, p := range append(item.Parameters, op.Parameters...) {
				if p.Ref != "" {
					p = d.Components.Parameters[last(p.Ref)]
				}
				one.Parameters = append(one.Parameters, p)
			}
			list = append(list, one)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.Path < b.Path || a.Path == b.Path && a.Method < b.Method
	})
	return list
}

// Body is what a request carries, or nil.
func (d *description) Body(op operation) *schema {
	body, ok := op.RequestBody.Content["application/json"]
	if !ok {
		return nil
	}
	if body.Schema.Ref != "" {
		named := d.Components.Schemas[last(body.Schema.Ref)]
		return &named
	}
	return &body.Schema
}

// Answer is what one status of an operation means.
func (d *description) Answer(r response) string {
	if r.Ref != "" {
		return d.Components.Responses[last(r.Ref)].Description
	}
	return r.Description
}

func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// prose is the little of Markdown that the description uses: paragraphs and
// code.
func prose(text string) template.HTML {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		out.WriteString("<p>")
		for i, part := range strings.Split(template.HTMLEscapeString(paragraph), "`") {
			if i%2 == 1 {
				part = "<code>" + part + "</code>"
			}
			out.WriteString(part)
		}
		out.WriteString("</p>")
	}
	return template.HTML(out.String()) //nolint:gosec // escaped above
}
