// Package web is the HTTP side of a node: the routes, who is calling, what an
// error looks like, and what is counted and logged of a request.
package web
