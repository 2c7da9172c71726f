package app

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// version returns the version of a sale in quotes, as If-Match needs it.
func (a answer) version() string {
	a.n.t.Helper()
	var sale struct{ Version string }
	if a.into(a.n.t, &sale); sale.Version == "" {
		a.n.t.Errorf("call %s: got %d %s, want a sale with a version", a.call, a.status, a.body)
	}
	return `"` + sale.Version + `"`
}

// A cache would answer 304 and keep an old stock if one validator stood for two contents.
func TestValidatorsCoverTheContent(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	n.put("S", 1, 1, 900).want(201)
	read := func(path string) answer { return n.known("GET", path, "", "").want(200) }
	first := map[string]answer{"/v1/sales/S": read("/v1/sales/S"), "/v1/sales": read("/v1/sales")}
	n.sold("S", "ann")
	for path, before := range first {
		var after answer
		check.Eventually(t, "the last unit is sold", func() bool { after = read(path); return after.has(`"available":0`) })
		for _, name := range []string{"ETag", "Last-Modified"} {
			if tag := after.header.Get(name); tag != "" && tag == before.header.Get(name) {
				t.Errorf("GET %s: got %s %s for %s and for %s, want one content for each", path, name, tag, before.body, after.body)
			}
		}
		if path != "/v1/sales" && before.version() != after.version() {
			t.Errorf("version of the sale: got %s before and %s after units were sold, want no change", before.version(), after.version())
		}
	}
}

// Operators change a sale only in the version that they have read. No header of an answer is part
// of that, because proxies change headers.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	op := n.token("op", true)
	put := func(header ...string) answer {
		return n.known("PUT", "/v1/admin/sales/S", op, terms(t, nil), header...)
	}
	put("If-Match: *").want(412, "precondition_failed")
	old := put("If-None-Match: *").want(201).version()
	put("If-None-Match: *").want(412, "precondition_failed")
	put(`If-None-Match: "x"`).want(400, "invalid_request").contains(`"field":"If-None-Match"`)
	version := put("If-Match: " + old).want(200).version()
	put("If-Match: "+old).want(412, "precondition_failed")
	n.known("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+old).want(412, "precondition_failed")
	check.Eventually(t, "the public answer has the new version", func() bool { return n.known("GET", "/v1/sales/S", "", "").version() == version })
	closed := n.known("POST", "/v1/admin/sales/S/close", op, "", "If-Match: "+version).want(200).contains(`"state":"closed"`).version()
	put("If-Match: " + closed).want(200)
}
