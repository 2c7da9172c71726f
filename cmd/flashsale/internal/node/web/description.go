package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
)

// OpenAPI is the machine-readable contract, which GET /openapi.yaml returns. Tests check
// the routes and all responses against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

// docs contains the page of /docs and Swagger UI, which shows OpenAPI there.
//
//go:embed docs
var docs embed.FS

// docsPolicy is the Content-Security-Policy of /docs. The page has no inline script and no inline
// style, and sends requests to this server only. Swagger UI draws its icons from data URLs.
const docsPolicy = "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// describe registers /openapi.yaml, /docs and the files of /docs.
func (s *Server) describe() error {
	page, err := docs.ReadFile("docs/docs.html")
	if s.cfg.Demo {
		page = bytes.Replace(page, []byte("<body>"), []byte("<body data-demo>"), 1)
	}
	s.engine.Match(reading, "/openapi.yaml", func(c *gin.Context) { s.serveFile(c, "openapi.yaml") })
	s.engine.Match(reading, "/docs", document(page, docsPolicy))
	s.engine.Match(reading, "/docs/:file", func(c *gin.Context) { s.serveFile(c, c.Param("file")) })
	return err
}

// A file is served as it is, or compressed.
type file struct {
	text, compressed []byte
	tag              string // hash of text
}

// docFiles returns OpenAPI and the files of /docs by their names. They are compressed on the
// first request, because that takes about 100 ms.
var docFiles = sync.OnceValue(func() map[string]file {
	files := map[string]file{"openapi.yaml": compress(OpenAPI)}
	_ = fs.WalkDir(docs, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, _ := docs.ReadFile(name) // reading an embedded file does not fail
			files[path.Base(name)] = compress(text)
		}
		return err
	})
	return files
})

func compress(text []byte) file {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // writing to a buffer does not fail
	_ = w.Close()
	return file{text, out.Bytes(), fmt.Sprintf("%x", sha256.Sum256(text))[:16]}
}

// acceptsGzip matches an Accept-Encoding with gzip, unless its weight is 0.
var acceptsGzip = regexp.MustCompile(`\bgzip\s*($|,|;\s*q=(1|0\.0*[1-9]))`)

var contentTypes = map[string]string{
	".yaml": "application/yaml", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
}

// serveFile serves a file, which the browser keeps and revalidates with its ETag on each use. A
// longer life would pair an old file with a new page after an upgrade.
func (s *Server) serveFile(c *gin.Context, name string) {
	file, ok := docFiles()[name]
	if !ok {
		s.fail(c, errNotFound)
		return
	}
	body, tag := file.text, `"`+file.tag+`"`
	c.Header("Cache-Control", "no-cache")
	c.Header("Vary", "Accept-Encoding")
	if acceptsGzip.MatchString(c.GetHeader("Accept-Encoding")) {
		body, tag = file.compressed, `"`+file.tag+`-gzip"`
		c.Header("Content-Encoding", "gzip")
	}
	c.Header("ETag", tag)
	if strings.Contains(c.GetHeader("If-None-Match"), tag) {
		c.Status(http.StatusNotModified)
		return
	}
	c.Data(http.StatusOK, cmp.Or(contentTypes[path.Ext(name)], "text/plain; charset=utf-8"), body)
}
