package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"flashsale/loadtest/servers/servertest/check"
)

// Compose kills a node only after the sum of the bounds that OPERATIONS.md states, with the
// delay of the image and the drain of docker-compose.yml.
func TestStopGracePeriodCoversAllSteps(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		check.Must(t, err)
		return string(text)
	}
	duration := func(text, pattern string) time.Duration {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("duration %s: got none, want one", pattern)
		}
		d, err := time.ParseDuration(found[1])
		check.Must(t, err)
		return d
	}
	stack, manual := read("../../docker-compose.yml"), read("OPERATIONS.md")
	_, api, _ := strings.Cut(stack, "\n  api:\n")
	delay, drain := duration(read("../../Dockerfile"), `FLASHSALE_DRAIN_DELAY=(\S+)`), duration(api, `FLASHSALE_DRAIN: (\S+)`)
	grace := duration(api, `stop_grace_period: (\S+)`)
	_, table, _ := strings.Cut(manual, "| step | bound | default |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var sum time.Duration
	bounds := regexp.MustCompile(`(\d+) s(?: in the image)? \|\n`).FindAllStringSubmatch(table+"\n", -1)
	for _, bound := range bounds {
		d, err := time.ParseDuration(bound[1] + "s")
		check.Must(t, err)
		sum += d
	}
	if len(bounds) != strings.Count(table, "\n") || fmt.Sprint(bounds[0][1], "s ", bounds[1][1], "s") != fmt.Sprint(delay, " ", drain) {
		t.Errorf("bounds in OPERATIONS.md: got %d of %d rows, %q, want all, with the delay %v of the image and the drain %v", len(bounds), strings.Count(table, "\n"), bounds, delay, drain)
	}
	if delay == 0 || sum > grace {
		t.Errorf("stop of a node: got a delay of %v and %v for all steps, want a delay, and at most the stop_grace_period of %v", delay, sum, grace)
	}
}

// composed holds the fields of a Compose file that the test checks.
type composed struct {
	Services map[string]struct {
		Image string
		Build struct {
			Contexts map[string]string `yaml:"additional_contexts"`
		}
	}
}

// pinned.yml has the digest of every image that the stack pulls or builds from, or states that it
// is missing.
func TestImagesArePinned(t *testing.T) {
	decode := func(path string, into any) {
		t.Helper()
		check.Must(t, yaml.UnmarshalWithOptions([]byte(read(t, path)), into, yaml.AllowDuplicateMapKey()))
	}
	// build is a string in docker-compose.yml and a mapping in pinned.yml.
	var stack struct {
		Services map[string]struct{ Image string }
	}
	var pinned composed
	decode("docker-compose.yml", &stack)
	decode(".compose/pinned.yml", &pinned)
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
		if strings.Contains(read(t, ".compose/pinned.yml"), fmt.Sprintf("\n  %s: {image: %q} # digest missing\n", name, s.Image)) {
			continue
		}
		got, ok := strings.CutPrefix(pinned.Services[name].Image, s.Image)
		if !ok || !digest.MatchString(got) {
			t.Errorf("image of service %s, %s: got %q in pinned.yml, want a digest", name, s.Image, pinned.Services[name].Image)
		}
	}
}

// Prometheus and the services that it scrapes share a network, and each panel and annotation of
// the dashboard reads the data source that the viewer chooses.
func TestStackIsObserved(t *testing.T) {
	var stack struct {
		Services map[string]struct{ Networks []string }
	}
	check.Must(t, yaml.UnmarshalWithOptions([]byte(read(t, "docker-compose.yml")), &stack, yaml.AllowDuplicateMapKey()))
	targets := regexp.MustCompile(`(?:names|targets): \["?([a-z-]+)`).FindAllStringSubmatch(read(t, ".compose/prometheus.yml"), -1)
	for _, m := range targets {
		if !slices.Contains(stack.Services[m[1]].Networks, "watch") || len(targets) != 4 {
			t.Errorf("service %s, one of %d that Prometheus scrapes: got networks %v, want watch, and four services", m[1], len(targets), stack.Services[m[1]].Networks)
		}
	}
	dashboard := read(t, ".compose/grafana/dashboards/flashsale.json")
	if n := strings.Count(dashboard, `"uid": "`) - strings.Count(dashboard, `"uid": "${datasource}"`); n != 1 {
		t.Errorf("identifiers in the dashboard: got %d that are not the variable datasource, want its own", n)
	}
	contains(t, dashboard, `"name": "datasource"`, "increase(flashsale_keeper_takeovers_total[", "increase(flashsale_keeper_rebuilds_total[")
}

// Every service runs without capabilities and with a bound of its processes. Only the
// stores have the capabilities with which their entry points change to another user.
func TestServicesAreConfined(t *testing.T) {
	var stack struct {
		Services map[string]struct {
			CapDrop     []string `yaml:"cap_drop"`
			CapAdd      []string `yaml:"cap_add"`
			SecurityOpt []string `yaml:"security_opt"`
			PidsLimit   int      `yaml:"pids_limit"`
			MemLimit    string   `yaml:"mem_limit"`
			Privileged  bool
		}
	}
	check.Must(t, yaml.UnmarshalWithOptions([]byte(read(t, "docker-compose.yml")), &stack, yaml.AllowDuplicateMapKey()))
	for name, s := range stack.Services {
		var add []string
		if name == "redis" || name == "mysql" {
			add = []string{"CHOWN", "DAC_OVERRIDE", "SETGID", "SETUID"}
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.CapAdd, add) || s.Privileged ||
			!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.PidsLimit == 0 || s.MemLimit == "" {
			t.Errorf("service %s: got %+v, want no capabilities but %v, no new privileges, and limits of processes and memory", name, s, add)
		}
	}
}

// Every user of a machine can see the command lines of its processes. Therefore a secret
// reaches a service as a variable of the environment.
func TestCommandsContainNoSecrets(t *testing.T) {
	var stack struct {
		Services map[string]struct {
			Command, Entrypoint any
			Healthcheck         struct{ Test any }
		}
	}
	check.Must(t, yaml.UnmarshalWithOptions([]byte(read(t, "docker-compose.yml")), &stack, yaml.AllowDuplicateMapKey()))
	inserted := regexp.MustCompile(`(?:^|[^$])(?:\$\$)*\$\{?\w*(?:PASSWORD|SECRET|AUTH)`) // $$ is a $ for the shell in the container
	for name, s := range stack.Services {
		if line := fmt.Sprint(s.Entrypoint, s.Command, s.Healthcheck.Test); inserted.MatchString(line) {
			t.Errorf("service %s: got the command line %s, want no secret in it", name, line)
		}
	}
}

// Compose passes each setting of haproxy.cfg to the proxy, and .env.example describes it.
func TestProxyHasItsSettings(t *testing.T) {
	var stack struct {
		Services struct {
			Proxy struct{ Environment map[string]string }
		}
	}
	check.Must(t, yaml.UnmarshalWithOptions([]byte(read(t, "docker-compose.yml")), &stack, yaml.AllowDuplicateMapKey()))
	settings := regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(read(t, ".compose/haproxy.cfg"), -1)
	if len(settings) != 3 {
		t.Errorf("settings of haproxy.cfg: got %v, want three", settings)
	}
	for _, m := range settings {
		if value := stack.Services.Proxy.Environment[m[1]]; !strings.HasPrefix(value, "${"+m[1]+":-") {
			t.Errorf("%s of the proxy in docker-compose.yml: got %q, want the variable with a default", m[1], value)
		}
		contains(t, read(t, ".env.example"), "\n#"+m[1]+"=")
	}
}

// Each setting and each argument in the manifest for Kubernetes is one of serve.
func TestManifestHasKnownSettings(t *testing.T) {
	manifest, known := read(t, "cmd/flashsale/kubernetes.yml"), ""
	for _, f := range flagsOf(t, "serve") {
		known += strings.Join(f.Envs, " ") + " "
	}
	for _, name := range regexp.MustCompile(`FLASHSALE_\w+`).FindAllString(manifest, -1) {
		contains(t, known, name+" ")
	}
	args := regexp.MustCompile(`args: \[(.*)\]`).FindStringSubmatch(manifest)
	parses(t, strings.ReplaceAll(args[1], ",", ""))
}
