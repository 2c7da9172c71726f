package main

import (
	"fmt"
	"log/slog"
	"reflect"

	"github.com/alecthomas/kong"

	"flashsale/cmd/flashsale/internal/node/app"
)

// settings are a command's flags with what they are set to, by whatever means,
// for its log. The tag secret says what must not be seen there: of an url the
// password, or all of it.
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
	target := f.Target
	if target.Kind() == reflect.Pointer {
		if target.IsNil() { // not given
			return ""
		}
		target = target.Elem()
	}
	value := target.Interface()
	switch f.Tag.Get("secret") {
	case "all":
		if reflect.ValueOf(value).IsZero() {
			return ""
		}
		return "***"
	case "url":
		if urls, several := value.([]string); several {
			hidden := make([]string, len(urls))
			for i, url := range urls {
				hidden[i] = app.Redact(url)
			}
			value = hidden
		} else {
			value = app.Redact(value.(string))
		}
	}
	return fmt.Sprint(value)
}
