package alerts

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/rhysd/actionlint"
	yamlv2 "go.yaml.in/yaml/v2" // decodes rules of Prometheus, as Prometheus does
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const root = "../../../../.." // folder of the main module

// text returns the content of a file of the main module.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatalf("read %s: got error %v, want none", name, err)
	}
	return string(b)
}

// RUNBOOK.md has a section for each alert, with the same four answers, and no other sections. Each
// alert links to its section, on a host that operators replace.
func TestRunbook(t *testing.T) {
	rules := read(t)
	answers := regexp.MustCompile(`(?s)^\n- \*\*Meaning\*\*.*\n- \*\*Look at\*\*.*\n- \*\*Type\*\*.*\n- \*\*It is over\*\*`)
	for _, section := range strings.Split(text(t, "cmd/flashsale/RUNBOOK.md"), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if _, known := rules[name]; !known || !answers.MatchString(body) {
			t.Errorf("section %s of the runbook: got an alert of that name: %v, want one, and the items that TestRunbook lists", name, known)
		}
		if got, want := rules[name].Annotations["runbook_url"], "https://runbooks.example/RUNBOOK.md#"+strings.ToLower(name); got != want {
			t.Errorf("runbook_url of alert %s: got %q, want %q", name, got, want)
		}
		delete(rules, name)
	}
	for name := range rules {
		t.Errorf("alert %s: got no section in the runbook, want one", name)
	}
}

// Kubernetes accepts each object of the manifest, and knows all of its fields. The containers are
// probed at the two pages, and have the time to stop that docker-compose.yml gives them. The job in
// OBSERVABILITY.md scrapes the port of their metrics, and no other port.
func TestManifest(t *testing.T) {
	var deployment appsv1.Deployment
	objects := []any{&deployment, &corev1.Service{}, &policyv1.PodDisruptionBudget{}}
	parts := strings.Split(text(t, "cmd/flashsale/kubernetes.yml"), "\n---\n")
	if len(parts) != len(objects) {
		t.Fatalf("manifest: got %d objects, want %d", len(parts), len(objects))
	}
	for i, part := range parts {
		if err := yaml.UnmarshalStrict([]byte(part), objects[i]); err != nil {
			t.Errorf("object %d of the manifest: got error %v, want none", i, err)
		}
	}
	pod := deployment.Spec.Template.Spec
	grace := regexp.MustCompile(`stop_grace_period: (\d+)s # FLASHSALE_DRAIN_DELAY`).FindStringSubmatch(text(t, "docker-compose.yml"))
	if got := pod.TerminationGracePeriodSeconds; got == nil || len(grace) == 0 || fmt.Sprint(*got) != grace[1] {
		t.Errorf("grace period of the pods: got %v, want that of docker-compose.yml, %q", got, grace)
	}
	c := pod.Containers[0]
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" || c.StartupProbe != nil {
		t.Errorf("probes: got %v and %v, want /readyz and /livez", c.ReadinessProbe, c.LivenessProbe)
	}
	var scraping struct {
		Jobs []struct {
			Name    string                  `yaml:"job_name"`
			Roles   []struct{ Role string } `yaml:"kubernetes_sd_configs"`
			Relabel []*relabel.Config       `yaml:"relabel_configs"`
		} `yaml:"scrape_configs"`
	}
	_, job, _ := strings.Cut(text(t, "cmd/flashsale/OBSERVABILITY.md"), "```yaml\n")
	job, _, _ = strings.Cut(job, "```")
	if err := yamlv2.UnmarshalStrict([]byte(job), &scraping); err != nil || len(scraping.Jobs) != 1 || scraping.Jobs[0].Name != "flashsale" {
		t.Fatalf("job in OBSERVABILITY.md: got %+v, error %v, want one of the name flashsale", scraping.Jobs, err)
	}
	for _, port := range c.Ports {
		target := labels.FromStrings("__meta_kubernetes_pod_label_app", deployment.Spec.Template.Labels["app"], "__meta_kubernetes_pod_container_port_name", port.Name)
		_, scraped := relabel.Process(target, scraping.Jobs[0].Relabel...)
		if want := slices.Contains(c.Args, fmt.Sprint("--metrics-addr=:", port.ContainerPort)); scraped != want {
			t.Errorf("port %s: got scraped %t, want %t", port.Name, scraped, want)
		}
	}
}

// actionlint finds no fault in the workflows, and each action is pinned to a commit.
func TestWorkflows(t *testing.T) {
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatalf("open actionlint: got error %v, want none", err)
	}
	names, _ := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	faults, err := linter.LintFiles(names, nil)
	if err != nil || len(faults) > 0 {
		t.Errorf("workflows: got faults %v and error %v, want none", faults, err)
	}
	pinned := regexp.MustCompile(`^uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+$`)
	for _, name := range []string{"ci.yml", "release.yml"} {
		for line := range strings.Lines(text(t, ".github/workflows/"+name)) {
			if line = strings.TrimPrefix(strings.TrimSpace(line), "- "); strings.HasPrefix(line, "uses: ") && !pinned.MatchString(line) {
				t.Errorf("workflow %s: got %q, want an action with its commit and its version", name, line)
			}
		}
	}
}
