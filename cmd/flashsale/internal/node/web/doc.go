// Package web is the HTTP server of a node. It contains the routes, authentication,
// the error responses, and the metrics and logs of requests.
package web
