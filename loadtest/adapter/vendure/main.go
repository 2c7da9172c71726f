// Command vendure puts a shop of Vendure behind the HTTP contract of the load test. The
// README shows how to start both.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/judge"
)

// about describes Vendure. Handler adds the other features that this adapter does not have.
var about = adapter.About{Name: "Vendure", Lacks: []judge.Feature{judge.Keys}}

func main() {
	s := shop{about: about, perPage: 1000} // the limit of Vendure's default settings
	listen := flag.String("listen", "127.0.0.1:9000", "loopback `address` to listen on")
	flag.StringVar(&s.url, "url", "http://127.0.0.1:3111", "`URL` of Vendure")
	flag.StringVar(&s.about.Version, "version", "3.7.3", "`version` of Vendure, for the report")
	flag.StringVar(&s.about.Settings, "settings", "default settings, MariaDB", "`settings` of Vendure, for the report")
	flag.Parse()
	if err := s.login(context.Background()); err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", *listen)
	log.Fatal(http.ListenAndServe(*listen, adapter.Handler(&s)))
}
