// Package httpapi serves a shop over HTTP. Its handlers decode a request, call package shop,
// and encode the result. The program that mounts the handlers authenticates the buyer, and
// turns the errors that the handlers return into responses.
package httpapi
