package main

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"

	"flashsale/cmd/flashsale/internal/node/app"
)

// settings returns the flags of a command with their values, for its log. The tag
// secret:"url" hides the password of a URL, and secret:"all" the whole value.
func settings(k *kong.Context) []any {
	var list []any
	for _, f := range k.Selected().Flags {
		if !f.Hidden {
			list = append(list, slog.String(f.Name, shown(f)))
		}
	}
	return list
}

func shown(f *kong.Flag) string {
	target := reflect.Indirect(f.Target)
	secret := f.Tag.Get("secret")
	switch {
	case !target.IsValid(), secret == "all" && target.IsZero(): // the flag is not set
		return ""
	case secret == "all":
		return "***"
	case secret != "url":
		return fmt.Sprint(target)
	}
	if urls, several := target.Interface().([]string); several {
		hidden := slices.Clone(urls)
		for i, url := range urls {
			hidden[i] = app.Redact(url)
		}
		return fmt.Sprint(hidden)
	}
	return app.Redact(target.String())
}
