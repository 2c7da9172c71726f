package web

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
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
	page, err := readable()
	if err != nil {
		return err
	}
	s.engine.GET("/openapi.yaml", func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml", OpenAPI) })
	// One file: it loads nothing, from here or from elsewhere.
	s.engine.GET("/docs", document(page, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"))
	return nil
}

// description is what the page shows.
type description struct{ *openapi3.T }

// operation is one call, with the parameters of its path and its own.
type operation struct {
	*openapi3.Operation
	Method, Path string
	Parameters   openapi3.Parameters
}

// readable is the description as a page, made once per process: it takes some
// 50 ms.
var readable = sync.OnceValues(func() ([]byte, error) {
	d, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		return nil, err
	}
	page, err := template.New("docs").Funcs(template.FuncMap{"prose": prose, "last": path.Base}).Parse(descriptionHTML)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, description{d})
	return out.Bytes(), err
})

// Operations are those under one tag, by path.
func (d description) Operations(tag string) []operation {
	var list []operation
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Tags[0] == tag {
				list = append(list, operation{op, method, path, slices.Concat(item.Parameters, op.Parameters)})
			}
		}
	}
	slices.SortFunc(list, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return list
}

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
