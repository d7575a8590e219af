package plugin

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
)

// standIn is an API server that has an installation on one node, and records what it is asked. It
// refuses connections to containers, after it recorded them.
type standIn struct {
	url     string
	objects map[string][]metav1.Object // by resource
	refuse  string                     // a permission that it refuses
	metrics string

	mu    sync.Mutex
	asked map[string]bool // verb group/resource
}

// kinds are those of the resources.
var kinds = map[string]string{"nodes": "v1 Node", "pods": "v1 Pod", "events": "v1 Event", "persistentvolumeclaims": "v1 PersistentVolumeClaim",
	"persistentvolumes": "v1 PersistentVolume", "daemonsets": "apps/v1 DaemonSet", "storageclasses": "storage.k8s.io/v1 StorageClass",
	"csinodes": "storage.k8s.io/v1 CSINode", "csidrivers": "storage.k8s.io/v1 CSIDriver", "csistoragecapacities": "storage.k8s.io/v1 CSIStorageCapacity",
	"leases": "coordination.k8s.io/v1 Lease", "hostpathprovisioners": "hostpathprovisioner.kubevirt.io/v1beta1 HostPathProvisioner"}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	s := &standIn{asked: map[string]bool{}, objects: installation(),
		metrics: "# TYPE kubevirt_hpp_pool_quota_enforced gauge\nkubevirt_hpp_pool_quota_enforced{method=\"none\",pool=\"local\"} 0\n"}
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	s.url = api.URL
	return s
}

// installation returns the objects of a node with an agent, one of raw disks, the operator, and a
// claim with its volume.
func installation() map[string][]metav1.Object {
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	pod := func(name, app string, args ...string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: name, UID: "uid", Labels: map[string]string{"k8s-app": app}, Annotations: map[string]string{contract.AnnAgent: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
			Spec: corev1.PodSpec{NodeName: "node-01", ServiceAccountName: "agents", Containers: []corev1.Container{{Name: "hostpath-provisioner", Image: "hpp:v1", Args: args,
				Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}}}}, Status: ready}
	}
	operator := pod("operator-1", "")
	operator.Labels = map[string]string{"name": "hostpath-provisioner-operator"}
	operator.Spec.Containers[0].Name = "hostpath-provisioner-operator"
	starts := pod("agent-2", "hostpath-provisioner-csi")
	starts.Status = corev1.PodStatus{}
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	return map[string][]metav1.Object{
		"nodes": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", UID: "uid"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}},
		"pods": {pod("agent-1", "hostpath-provisioner-csi", "--endpoint=x"), pod("disks-1", "hostpath-provisioner-disks", "disks"), operator, starts},
		"daemonsets": {&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "csi", Labels: map[string]string{"k8s-app": "hostpath-provisioner-csi"}},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, CurrentNumberScheduled: 1}}},
		"csidrivers":     {&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner}}},
		"storageclasses": {&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: contract.CSIProvisioner, VolumeBindingMode: &delayed}},
		"persistentvolumeclaims": {&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "c1"},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-c1", StorageClassName: ptr.To("local")}}},
		"persistentvolumes": {&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-c1", UID: "uid"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "c1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}}}}}}},
	}
}

// ServeHTTP records the request as RBAC sees it, and answers.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	group, rest := "", strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version":
		s.record("get /version")
		answer(w, http.StatusOK, map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.4"})
		return
	case rest[0] == "apis":
		group, rest = rest[1], rest[3:]
	default:
		rest = rest[2:]
	}
	if rest[0] == "namespaces" && len(rest) > 2 {
		rest = rest[2:]
	}
	resource, name, sub := rest[0], "", ""
	if len(rest) > 1 {
		name = rest[1]
	}
	if len(rest) > 2 {
		sub = "/" + rest[2]
	}
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodDelete: "delete", http.MethodPut: "update", http.MethodPatch: "patch"}[r.Method]
	switch {
	case verb == "get" && name == "":
		verb = "list"
	case verb == "delete" && name == "":
		verb = "deletecollection"
	}
	what := verb + " " + group + "/" + resource + sub
	s.record(what)
	if s.refuse != "" && strings.Contains(what, s.refuse) {
		answer(w, http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden))
		return
	}
	s.serve(w, r, verb, resource, name, sub)
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request, verb, resource, name, sub string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sub == "/proxy":
		_, _ = io.WriteString(w, s.metrics)
	case sub == "/log" && name == "disks-1":
		answer(w, http.StatusBadGateway, apitest.Failure(http.StatusBadGateway, "BadGateway"))
	case sub == "/log":
		_, _ = io.WriteString(w, "a line\n")
	case sub == "/exec":
		answer(w, http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden))
	case verb == "create":
		s.create(w, r, resource)
	case verb == "deletecollection":
		s.objects[resource] = slices.DeleteFunc(s.objects[resource], func(o metav1.Object) bool { return selects(r, o) })
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case verb == "list":
		version, kind, _ := strings.Cut(kinds[resource], " ")
		items := []metav1.Object{}
		for _, o := range s.objects[resource] {
			if selects(r, o) {
				items = append(items, o)
			}
		}
		answer(w, http.StatusOK, map[string]any{"apiVersion": version, "kind": kind + "List", "metadata": map[string]any{}, "items": items})
	default:
		for _, o := range s.objects[resource] {
			if o.GetName() == name {
				answer(w, http.StatusOK, o)
				return
			}
		}
		answer(w, http.StatusNotFound, apitest.Failure(http.StatusNotFound, metav1.StatusReasonNotFound))
	}
}

// create allows what a review asks for, and keeps other objects.
func (s *standIn) create(w http.ResponseWriter, r *http.Request, resource string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		answer(w, http.StatusBadRequest, apitest.Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest))
		return
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	switch o := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status.Allowed = true
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = true
	case metav1.Object:
		s.objects[resource] = append(s.objects[resource], o)
	}
	answer(w, http.StatusCreated, object)
}

// selects reports whether the labels of a request select the object.
func selects(r *http.Request, o metav1.Object) bool {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	return err == nil && selector.Matches(labels.Set(o.GetLabels()))
}

func answer(w http.ResponseWriter, status int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object)
}

func (s *standIn) record(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[what] = true
}

// call runs the plugin with the stand-in, and returns what it printed and what it asked for.
func (s *standIn) call(t *testing.T, args ...string) (out string, asked []string, err error) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\nusers: [{name: u}]\n", s.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.asked = map[string]bool{}
	s.mu.Unlock()
	var printed bytes.Buffer
	c := Command("v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &printed, ErrOut: io.Discard})
	c.SetArgs(append(args, "--kubeconfig", config))
	err = c.ExecuteContext(t.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	return printed.String(), slices.Sorted(maps.Keys(s.asked)), err
}

// arguments are those of commands that need some.
var arguments = map[string][]string{"explain": {"data"}, "node": {"node-01"}, "doctor": {"--measure"}}

// leaves returns the commands that read a cluster, by their words.
func leaves(c *cobra.Command) (all [][]string) {
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help" || sub.Name() == "completion" || sub.Hidden:
		case sub.HasSubCommands():
			for _, words := range leaves(sub) {
				all = append(all, append([]string{sub.Name()}, words...))
			}
		default:
			all = append(all, []string{sub.Name()})
		}
	}
	return all
}

// The roles of manifests/plugin allow what the commands ask for, and nothing else; the help of each
// command names the resources.
func TestRolesAreWhatCommandsAskFor(t *testing.T) {
	asked := map[string]bool{}
	root := Command("v1", genericiooptions.NewTestIOStreamsDiscard())
	for _, words := range leaves(root) {
		s := newStandIn(t)
		args := append(slices.Clone(words), arguments[words[0]]...)
		if words[0] == "report" {
			args = append(args, "-f", filepath.Join(t.TempDir(), "report.zip"))
		}
		_, requests, err := s.call(t, args...)
		if code := ExitCode(err); err != nil && !Quiet(err) {
			t.Errorf("%s: %d, %v", words, code, err)
		}
		command, _, err := root.Find(words)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			asked[r] = true
			named(t, root, command, r)
		}
	}
	allowed := map[string]bool{}
	for _, file := range []string{"view", "admin"} {
		for what := range rules(t, file) {
			if allowed[what] {
				t.Errorf("both roles allow %s", what)
			}
			allowed[what] = true
			if !asked[what] {
				t.Errorf("%s.yaml allows %s, which no command asks for", file, what)
			}
		}
	}
	for what := range asked {
		if !allowed[what] {
			t.Errorf("a command asks for %s, which no role allows", what)
		}
	}
}

// named checks that the paragraph about permissions of a command names the resource of a request. All
// users may ask for the version and about themselves.
func named(t *testing.T, root, c *cobra.Command, request string) {
	t.Helper()
	_, resource, _ := strings.Cut(request, "/")
	_, paragraph, has := strings.Cut(c.Long, "Permissions: ")
	if strings.Contains(paragraph, "those of doctor") {
		doctor, _, err := root.Find([]string{"doctor"})
		if err != nil {
			t.Fatal(err)
		}
		paragraph += doctor.Long
	}
	if resource != "selfsubjectaccessreviews" && resource != "version" && (!has || !strings.Contains(paragraph, resource)) {
		t.Errorf("%s asks for %s, and the permissions in its help do not name it", c.CommandPath(), request)
	}
}

// rules returns what a role of manifests/plugin allows.
func rules(t *testing.T, file string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("../../manifests/plugin/" + file + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				all[verb+" "+url] = true
			}
			for _, resource := range r.Resources {
				all[verb+" "+r.APIGroups[0]+"/"+resource] = true
			}
		}
	}
	return all
}

func TestExitCodesOfDoctor(t *testing.T) {
	warning := []doctor.Row{{Verdict: doctor.Warning}, {Verdict: doctor.OK}}
	for failOn, want := range map[string]int{"warning": 1, "critical": 0} {
		if code := exitCode(warning, failOn); code != want {
			t.Errorf("a warning, for %s: %d", failOn, code)
		}
	}
	for _, row := range []struct {
		name, refuse, failOn string
		code                 int
	}{
		{"a warning", "", "warning", 1},
		{"a warning, and the agents were not asked, for critical", "", "critical", 1},
		{"unknown", "list /nodes", "warning", 1},
		{"unknown, for critical", "list /nodes", "critical", 1},
	} {
		s := newStandIn(t)
		s.objects["pods"] = s.objects["pods"][:1] // of the agent that is ready
		s.objects["csinodes"] = []metav1.Object{&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-01"},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner}}}}}
		s.objects["csidrivers"] = []metav1.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner}}}
		s.refuse = row.refuse
		out, _, err := s.call(t, "doctor", "--no-exec", "--fail-on", row.failOn)
		if code := ExitCode(err); code != row.code || err != nil && !Quiet(err) {
			t.Errorf("%s: %d, %v, want %d:\n%s", row.name, code, err, row.code, out)
		}
		if row.refuse != "" && !strings.Contains(out, "may not list nodes") {
			t.Errorf("%s: the reason is not printed:\n%s", row.name, out)
		}
	}
	s := newStandIn(t)
	if out, _, err := s.call(t, "doctor", "-o", "json"); ExitCode(err) != 2 || !json.Valid([]byte(out)) {
		t.Errorf("an agent that is not ready: %v\n%s", err, out)
	}
	if _, _, err := s.call(t, "doctor", "--fail-on", "ok"); err == nil || Quiet(err) {
		t.Errorf("--fail-on ok: %v", err)
	}
}

// With rights to nothing there is a report, which says what is missing.
func TestReportWithoutRights(t *testing.T) {
	s := newStandIn(t)
	path := filepath.Join(t.TempDir(), "report.zip")
	out, _, err := s.call(t, "report", "-f", path)
	if err != nil || !strings.HasPrefix(out, path+": ") {
		t.Fatalf("%v: %s", err, out)
	}
	if text := manifestOf(t, path); !strings.Contains(text, "logs/hpp/disks-1/hostpath-provisioner.log: cannot read the log:") ||
		!strings.Contains(text, "logs/hpp/agent-1/hostpath-provisioner.log: the log of the last hour, 7 bytes") {
		t.Errorf("the manifest has\n%s", text)
	}
	s.refuse = " "
	if out, _, err = s.call(t, "report", "--force", "-f", path); err != nil || !strings.Contains(out, "are missing: see MANIFEST.txt") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"objects/nodes.yaml: may not list nodes", "objects/hostpathprovisioners.yaml: may not list", "logs: may not list pods"} {
		if text := manifestOf(t, path); !strings.Contains(text, want) {
			t.Errorf("the manifest lacks %q:\n%s", want, text)
		}
	}
}

func manifestOf(t *testing.T, path string) string {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	data, err := archive.Open("MANIFEST.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
