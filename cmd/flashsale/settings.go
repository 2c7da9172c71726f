package main

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"unicode"

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

// checkSettings returns an error that names the settings with a carriage return, as in a file
// with Windows line ends, or with an invisible character at their end or beginning. Such a
// secret, scope or issuer matches no token, and the log does not show why.
func checkSettings(k *kong.Context) error {
	var faults []error
	for _, f := range k.Flags() {
		target := reflect.Indirect(f.Target)
		if !target.IsValid() {
			continue
		}
		invisible := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }
		text := strings.Trim(fmt.Sprint(target), "[]") // of a list, too
		if strings.Contains(text, "\r") || strings.TrimFunc(text, invisible) != text {
			faults = append(faults, fmt.Errorf("--%s: the value contains a carriage return (of a file with Windows line ends), or begins or ends with an invisible character", f.Name))
		}
	}
	return errors.Join(faults...)
}
