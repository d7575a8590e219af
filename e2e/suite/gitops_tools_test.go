package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// gitops applies files as a GitOps tool does its sources, and prunes what is in none any more. Both
// methods of its tool end the test with what the tool refused.
type gitops struct {
	*uninstaller
	tool interface {
		// apply returns what it created or changed.
		apply(file string) string
		// drift returns how the cluster differs from the file.
		drift(file string) string
		prune(file string)
	}
	mark string // is in the metadata of all that the tool applied
}

// flux is Flux's own library, as its kustomize-controller calls it.
type flux struct {
	*uninstaller
	program string
}

func newFlux(s *harness.Scene) *gitops {
	s.Helper()
	program, err := cluster.BuildFlux(s.Context(), io.Discard)
	if err != nil {
		s.Fatal(err)
	}
	u := &uninstaller{s}
	return &gitops{u, &flux{u, program}, "kustomize.toolkit.fluxcd.io/name"}
}

// run returns the lines of the action that name no object which stays as it is.
func (f *flux) run(action, file string) string {
	f.Helper()
	cmd := exec.Command(f.program, action, "storage", file)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Plane.Kubeconfig())
	cmd.Dir = "../.."
	var differs strings.Builder
	cmd.Stderr = &differs
	out, err := cmd.Output()
	if err != nil {
		f.Fatalf("flux %s %s: %v\n%s", action, file, err, differs.String())
	}
	lines := slices.Collect(strings.Lines(string(out)))
	if len(lines) == 0 {
		f.Fatalf("flux %s %s: nothing", action, file)
	}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "unchanged ") }), "") + differs.String()
}

func (f *flux) apply(file string) string { f.Helper(); return f.run("apply", file) }
func (f *flux) drift(file string) string { f.Helper(); return f.run("diff", file) }
func (f *flux) prune(file string)        { f.Helper(); f.run("prune", file) }

// argo is kubectl with Argo CD's field manager and annotations: its own engine was not run.
type argo struct{ *uninstaller }

func newArgo(s *harness.Scene) *gitops {
	u := &uninstaller{s}
	return &gitops{u, &argo{u}, "argocd.argoproj.io/tracking-id"}
}

const asArgo = " --server-side --field-manager=argocd-controller -f "

// tracked writes the objects with the annotation by which Argo CD knows them.
func (a *argo) tracked(file string) string {
	a.Helper()
	var all []string
	for _, o := range read(a.Scene, file) {
		notes := o.GetAnnotations()
		if notes == nil {
			notes = map[string]string{}
		}
		notes["argocd.argoproj.io/tracking-id"] = fmt.Sprintf("storage:%s/%s:%s/%s", o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName())
		o.SetAnnotations(notes)
		all = append(all, text(a.Scene, o))
	}
	return written(a.Scene, "tracked.yaml", strings.Join(all, "---\n"))
}

// apply never forces: a field of another manager with another value is a conflict.
func (a *argo) apply(file string) string {
	a.Helper()
	tracked := a.tracked(file)
	changes := a.drift(file)
	a.must(a.run("kubectl apply" + asArgo + tracked))
	return changes
}

// drift compares as Argo CD does with ServerSideDiff, and each field of the file as it does
// without.
func (a *argo) drift(file string) string {
	a.Helper()
	tracked := a.tracked(file)
	out, err := a.run("kubectl diff" + asArgo + tracked)
	if err != nil && !strings.Contains(out, "\n+++ ") {
		a.Fatalf("%v\n%s", err, out)
	}
	if err == nil {
		for _, o := range read(a.Scene, tracked) {
			out += absent(a.live(o).Object, o.Object, o.GetKind()+" "+o.GetName())
		}
	}
	return out
}

// live returns the object of the cluster.
func (u *uninstaller) live(o *unstructured.Unstructured) *unstructured.Unstructured {
	u.Helper()
	group := o.GroupVersionKind()
	kind := o.GetKind() + "." + group.Version + "." + group.Group // the last is empty for the core
	command := fmt.Sprintf("kubectl get %s %s -o json", kind, o.GetName())
	if o.GetNamespace() != "" {
		command += " -n " + o.GetNamespace()
	}
	have := &unstructured.Unstructured{}
	if err := have.UnmarshalJSON([]byte(u.must(u.run(command)))); err != nil {
		u.Fatal(err)
	}
	return have
}

// prune deletes what has no annotation against it.
func (a *argo) prune(file string) {
	a.Helper()
	var rest []string
	for _, o := range read(a.Scene, file) {
		if !strings.Contains(o.GetAnnotations()["argocd.argoproj.io/sync-options"], "Prune=false") {
			rest = append(rest, text(a.Scene, o))
		}
	}
	a.must(a.run("kubectl delete --ignore-not-found --wait=false -f " + written(a.Scene, "pruned.yaml", strings.Join(rest, "---\n"))))
}

// absent names the fields of want that have lacks or has with another value. Empty text counts as
// absent, as the API server and Argo CD drop it from kinds that they know.
func absent(have, want any, path string) (out string) {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			out += absent(have[key], value, path+"."+key)
		}
		return out
	case []any:
		have, _ := have.([]any)
		if len(have) == len(want) {
			for i := range want {
				out += absent(have[i], want[i], fmt.Sprintf("%s[%d]", path, i))
			}
			return out
		}
	}
	a, _ := json.Marshal(have)
	b, _ := json.Marshal(want)
	if string(a) == string(b) || want == "" && have == nil {
		return ""
	}
	return fmt.Sprintf("%s is %s, want %s\n", path, a, b)
}

// read returns the objects of a file of the repository.
func read(s *harness.Scene, file string) (all []*unstructured.Unstructured) {
	s.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join("../..", file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			s.Fatal(err)
		}
		if string(raw) == "null" {
			continue
		}
		if err := o.UnmarshalJSON(raw); err != nil {
			s.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func text(s *harness.Scene, o *unstructured.Unstructured) string {
	s.Helper()
	out, err := yaml.Marshal(o.Object)
	if err != nil {
		s.Fatal(err)
	}
	return string(out)
}

// written writes a file and returns its path.
func written(s *harness.Scene, name, content string) string {
	s.Helper()
	file := s.Path("gitops", name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// kustomized writes what a directory of the manifests builds.
func (g *gitops) kustomized(dir string) string {
	g.Helper()
	return written(g.Scene, strings.ReplaceAll(dir, "/", "-")+".yaml", g.must(g.run("kubectl kustomize manifests/"+dir)))
}

// inSync fails if the cluster differs from the file, or if the tool changes anything.
func (g *gitops) inSync(file string) {
	g.Helper()
	if out := g.tool.drift(file); out != "" {
		g.Errorf("%s has drifted:\n%s", file, out)
	}
	if out := g.tool.apply(file); out != "" {
		g.Errorf("%s is applied again:\n%s", file, out)
	}
}

// keeping writes the file with the annotations that a page has against pruning.
func (g *gitops) keeping(file string) string {
	g.Helper()
	var all []string
	for _, o := range read(g.Scene, file) {
		o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled"})
		all = append(all, text(g.Scene, o))
	}
	return written(g.Scene, "kept.yaml", strings.Join(all, "---\n"))
}

// marksOnly fails if an object that is in none of the files has the tool's mark: Argo CD prunes it.
func (g *gitops) marksOnly(files ...string) {
	g.Helper()
	own := map[string]bool{}
	for _, file := range files {
		for _, o := range read(g.Scene, file) {
			own[o.GetKind()+"/"+o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	marked := 0
	out := g.must(g.run("kubectl get " + kinds + ",services,pods,leases,csistoragecapacities,validatingwebhookconfigurations,hostpathprovisioners -A " +
		`-o jsonpath='{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.annotations}{.metadata.labels}{"\n"}{end}'`))
	for line := range strings.Lines(out) {
		id, metadata, _ := strings.Cut(line, " ")
		if !strings.Contains(metadata, `"`+g.mark+`"`) {
			continue
		}
		if marked++; !own[id] {
			g.Errorf("%s has the mark of the tool: %s", id, metadata)
		}
	}
	if marked != len(own) {
		g.Errorf("%d objects have the mark of the tool, want %d", marked, len(own))
	}
}

// stays asks for some seconds, and ends the test with the first error.
func (g *gitops) stays(what string, ask func() error) {
	g.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Second / 2) {
		if err := ask(); err != nil {
			g.Fatalf("%s: %v", what, err)
		}
	}
}
