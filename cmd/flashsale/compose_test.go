package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"flashsale/loadtest/servers/servertest/check"
)

// composed holds the fields of a Compose file that the test checks.
type composed struct {
	Services map[string]struct {
		Image string
		Build struct {
			Contexts map[string]string `yaml:"additional_contexts"`
		}
	}
}

// pinned.yml has the digest of every image that the stack pulls or builds from.
func TestImagesArePinned(t *testing.T) {
	read := func(path string, into any) {
		t.Helper()
		text, err := os.ReadFile("../../" + path)
		check.Must(t, err)
		check.Must(t, yaml.UnmarshalWithOptions(text, into, yaml.AllowDuplicateMapKey()))
	}
	// build is a string in docker-compose.yml and a mapping in pinned.yml.
	var stack struct {
		Services map[string]struct{ Image string }
	}
	var pinned composed
	read("docker-compose.yml", &stack)
	read(".compose/pinned.yml", &pinned)
	digest := regexp.MustCompile(`^@sha256:[0-9a-f]{64}$`)
	for name, s := range stack.Services {
		if s.Image == "flashsale:local" {
			dockerfile, err := os.ReadFile("../../Dockerfile")
			check.Must(t, err)
			for line := range strings.Lines(string(dockerfile)) {
				words := strings.Fields(line)
				if len(words) < 2 || words[0] != "FROM" {
					continue
				}
				got, ok := strings.CutPrefix(pinned.Services[name].Build.Contexts[words[1]], "docker-image://"+words[1])
				if !ok || !digest.MatchString(got) {
					t.Errorf("image of service %s, built from %s: got %q in pinned.yml, want a digest", name, words[1], got)
				}
			}
			continue
		}
		got, ok := strings.CutPrefix(pinned.Services[name].Image, s.Image)
		if !ok || !digest.MatchString(got) {
			t.Errorf("image of service %s, %s: got %q in pinned.yml, want a digest", name, s.Image, pinned.Services[name].Image)
		}
	}
}
