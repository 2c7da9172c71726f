// Package httpapi is a shop over HTTP: it decodes requests, calls package shop, and
// writes answers. Who the buyer is, and what an error looks like, its caller says.
package httpapi
