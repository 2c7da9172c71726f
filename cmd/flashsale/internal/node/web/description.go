package web

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
)

// OpenAPI is the machine-readable contract, which GET /openapi.yaml returns. Tests check
// the routes and all responses against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

//go:embed description.html
var descriptionHTML string

// describe registers /openapi.yaml and /docs.
func (s *Server) describe() error {
	page, err := readable()
	if err != nil {
		return err
	}
	s.engine.Match(reading, "/openapi.yaml", func(c *gin.Context) { c.Data(http.StatusOK, "application/yaml", OpenAPI) })
	s.engine.Match(reading, "/docs", func(c *gin.Context) {
		html := bytes.ReplaceAll(page, []byte(serverURL), []byte(address(c.Request)+s.prefix(c)))
		// The page is one file and loads nothing.
		document(html, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")(c)
	})
	return nil
}

// serverURL is the placeholder in the page for the URL that the client has used.
const serverURL = "http://this.server"

// plainHost matches hosts that a shell takes literally, because the page prints commands.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]+$`)

func address(r *http.Request) string {
	switch {
	case !plainHost.MatchString(r.Host):
		return "http://localhost:8080"
	case r.Header.Get("X-Forwarded-Proto") == "https":
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// An operation is a method of a path, with the parameters of both.
type operation struct {
	*openapi3.Operation
	Method, Path string
	Parameters   openapi3.Parameters
}

// A row is a parameter, or a field of a body.
type row struct {
	Name, Type, Text string
	Required         bool
}

// Rows returns the parameters as rows.
func (o operation) Rows() (list []row) {
	for _, p := range o.Parameters {
		list = append(list, row{p.Value.Name, p.Value.In + ", " + kind(p.Value.Schema.Value), p.Value.Description, p.Value.Required})
	}
	return list
}

// within returns the fields of an object, required fields first, and the fields of the
// objects in its lists.
func within(prefix string, s *openapi3.Schema) (list []row) {
	required := func(name string) bool { return slices.Contains(s.Required, name) }
	optional := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), required)
	for _, name := range append(slices.Clone(s.Required), optional...) {
		p := s.Properties[name].Value
		list = append(list, row{prefix + name, kind(p), p.Description, required(name)})
		if p.Items != nil {
			list = append(list, within(prefix+name+"[].", p.Items.Value)...)
		}
	}
	return list
}

// kind describes a type in words.
func kind(s *openapi3.Schema) string {
	text := strings.Join(s.Type.Slice(), "")
	if s.Format != "" && s.Format != "int64" {
		text = s.Format
	}
	if s.Nullable {
		text += " or null"
	}
	for i, value := range s.Enum {
		text += []string{": ", ", "}[min(i, 1)] + fmt.Sprint(value)
	}
	return text
}

// readable returns the page of /docs. It is rendered once per process because that takes
// about 50 ms.
var readable = sync.OnceValues(func() ([]byte, error) {
	d, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		return nil, err
	}
	page, err := template.New("docs").Funcs(template.FuncMap{
		"prose": prose, "within": within, "operations": operations, "upper": strings.ToUpper, "json": json.Marshal,
		"example": strings.NewReplacer("{sku}", "demo", "{id}", "$ORDER").Replace, // path in a command
	}).Parse(descriptionHTML)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, d)
	return out.Bytes(), err
})

// operations returns the operations with a tag, sorted by path and method.
func operations(d *openapi3.T, tag string) (list []operation) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths.Map())) {
		item := d.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			if op := item.GetOperation(method); op.Tags[0] == tag {
				list = append(list, operation{op, method, path, slices.Concat(item.Parameters, op.Parameters)})
			}
		}
	}
	return list
}

// prose converts the Markdown of the description to HTML. It supports paragraphs and code.
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
