package report

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
)

// canary is in every place from which nothing may come into a report.
const canary = "hunter2"

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name,
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": canary, "example.com/password": canary},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: canary}}}
}

// objects are an installation on two nodes, with canaries.
func objects() []runtime.Object {
	agent := meta("hpp", "agent-1")
	agent.Labels = map[string]string{"k8s-app": "hostpath-provisioner"}
	metav1.SetMetaDataAnnotation(&agent, contract.AnnAgent, "true")
	agent.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}
	spec := corev1.PodSpec{NodeName: "node-01", Containers: []corev1.Container{
		{Name: "hostpath-provisioner", Image: "hpp:v1", Env: []corev1.EnvVar{
			{Name: "PV_DIR", Value: "/var/hpvolumes"},
			{Name: "API_TOKEN", Value: canary},
			{Name: "REFERENCE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "reference-stays"}}},
		}},
		{Name: "injected", Env: []corev1.EnvVar{{Name: "PLAIN", Value: canary}}},
	}}
	ds := &appsv1.DaemonSet{ObjectMeta: meta("hpp", "agent")}
	ds.Labels = agent.Labels
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: meta("", ""), Spec: spec}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("shop", "data"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local")}}
	claim.Annotations[contract.AnnSelectedNode] = "selected-stays"
	claim.Labels = map[string]string{"customer": canary}
	others := claim.DeepCopy()
	others.Name, others.Spec.StorageClassName = "of-others-"+canary, ptr.To("cloud")
	operator := meta("hpp", "operator-1")
	operator.Labels = map[string]string{"name": "hostpath-provisioner-operator"}
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	return []runtime.Object{
		&corev1.Node{ObjectMeta: meta("", "node-01")}, &corev1.Node{ObjectMeta: meta("", "node-02")},
		&corev1.Pod{ObjectMeta: agent, Spec: spec, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "hostpath-provisioner", RestartCount: 1}}}},
		&corev1.Pod{ObjectMeta: operator, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "hostpath-provisioner-operator"}}}},
		ds, claim, others,
		&corev1.PersistentVolume{ObjectMeta: meta("", "pvc-others-"+canary), Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}}}},
		&corev1.PersistentVolume{ObjectMeta: meta("", "pvc-1"), Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner}}}},
		&storagev1.StorageClass{ObjectMeta: meta("", "local"), Provisioner: contract.HostPathProvisioner, VolumeBindingMode: &delayed},
		&storagev1.StorageClass{ObjectMeta: meta("", "cloud"), Provisioner: "ebs.csi.aws.com", Parameters: map[string]string{"key": canary, canary: ""}},
		&corev1.Secret{ObjectMeta: meta("hpp", "s-"+canary), Data: map[string][]byte{"k": []byte(canary)}},
		&corev1.ConfigMap{ObjectMeta: meta("hpp", "c-"+canary), Data: map[string]string{"k": canary}},
		&corev1.Event{ObjectMeta: meta("shop", "e"), InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}, Message: "it waits"},
	}
}

// bundleOf writes the report of a client, and returns its files.
func bundleOf(t *testing.T, client *fake.Clientset, edit func(*Sources)) map[string]string {
	t.Helper()
	reader := cluster.Reader{Client: apitest.Listing(client)}
	none := func(context.Context, []cluster.Agent) ([]agents.Pools, string) { return nil, "not asked" }
	// The fake client of pods has no proxy, and no resources of the operator.
	facts := &doctor.Facts{Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	facts.Nodes, facts.Classes, facts.PVs = reader.Nodes(t.Context()), reader.Classes(t.Context()), reader.PVs(t.Context())
	facts.Claims, facts.DaemonSets, facts.Operators = reader.Claims(t.Context(), ""), reader.DaemonSets(t.Context()), reader.Operators(t.Context())
	facts.Agents = reader.Agents(t.Context())
	facts.Pools, facts.NoPools = none(t.Context(), nil)
	facts.Leases.Unknown = "may not list leases"
	s := Sources{Reader: reader, Facts: facts, Rows: doctor.Run(facts), Version: "v1", Timeout: time.Second}
	s.Asker = agents.Asker{Timeout: time.Second, Exec: func(_ context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
		return []byte(`{"version":1}`), nil
	}}
	for _, a := range facts.Agents.Items {
		s.Facts.Metrics = append(s.Facts.Metrics, cluster.ParseMetrics(a, []byte("# TYPE a gauge\na 1\n")))
	}
	if edit != nil {
		edit(&s)
	}
	var out bytes.Buffer
	entries, err := Write(t.Context(), &out, s)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(data)
	}
	for _, e := range entries {
		if _, there := files[e.Name]; e.Bytes >= 0 && (!there || !strings.Contains(files[ManifestName], "  "+e.Name+": "+e.What)) {
			t.Errorf("%s is in the manifest or in the archive, and not in both", e.Name)
		}
	}
	for name := range files {
		if !strings.Contains(files[ManifestName], "  "+name+": ") && name != ManifestName {
			t.Errorf("the manifest does not list %s", name)
		}
	}
	return files
}

func TestReportHasNoSecrets(t *testing.T) {
	client := fake.NewClientset(objects()...)
	files := bundleOf(t, client, nil)
	for name, text := range files {
		if strings.Contains(text, canary) || strings.Contains(name, canary) {
			t.Errorf("%s has the canary:\n%s", name, text)
		}
	}
	for _, action := range client.Actions() {
		if r := action.GetResource().Resource; r == "secrets" || r == "configmaps" {
			t.Errorf("the report asks for %s %s", action.GetVerb(), r)
		}
	}
	for name, words := range map[string][]string{
		"objects/nodes.yaml":                                    {"kind: Node", "name: node-01", "name: node-02", `example.com/password: (cut)`},
		"objects/persistentvolumeclaims.yaml":                   {"name: data", "selected-stays", "customer: (cut)"},
		"objects/persistentvolumes.yaml":                        {"name: pvc-1"},
		"objects/storageclasses.yaml":                           {"name: cloud", "(cut): (cut)"},
		"objects/pods.yaml":                                     {"name: agent-1", "name: operator-1", "/var/hpvolumes", "reference-stays"},
		"objects/daemonsets.yaml":                               {"kind: DaemonSet", "/var/hpvolumes"},
		"objects/events/persistentvolumeclaims.yaml":            {"it waits"},
		"doctor.json":                                           {`"check": "agents"`},
		"metrics/hpp/agent-1.txt":                               {"a 1"},
		"inspect/hpp/agent-1.json":                              {`"version": 1`},
		"logs/hpp/agent-1/hostpath-provisioner.log":             {"fake logs"},
		"logs/hpp/agent-1/hostpath-provisioner.previous.log":    {"fake logs"},
		"logs/hpp/operator-1/hostpath-provisioner-operator.log": {"fake logs"},
		ManifestName: {"Report of kubectl hpp v1, 2026-01-01T12:00:00Z", "objects/leases.yaml: may not list leases",
			"logs/hpp/agent-1/injected.log: the container is not of hostpath-provisioner", "Secrets and ConfigMaps: none is read"},
	} {
		for _, word := range words {
			if !strings.Contains(files[name], word) {
				t.Errorf("%s lacks %q:\n%s", name, word, files[name])
			}
		}
	}
}

// What cannot be read is a line of the manifest with its reason, and the rest is there.
func TestMissing(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*fake.Clientset, *Sources)
		want string
	}{
		"dead node": {func(_ *fake.Clientset, s *Sources) {
			s.Asker.Timeout = 10 * time.Millisecond
			s.Asker.Exec = func(ctx context.Context, _, _, _ string, _ ...string) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, "inspect/hpp/agent-1.json: node node-01: no answer within 10ms (--timeout)"},
		"no exec":    {func(_ *fake.Clientset, s *Sources) { s.NoAsker = "may not run commands" }, "inspect: may not run commands"},
		"no metrics": {func(_ *fake.Clientset, s *Sources) { s.Facts.Metrics[0].Unknown = "may not get pods/proxy" }, "metrics/hpp/agent-1.txt: may not get pods/proxy"},
		"no pods": {func(c *fake.Clientset, s *Sources) {
			c.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
			})
		}, "objects/pods.yaml: may not list pods"},
		"no logs": {func(c *fake.Clientset, s *Sources) {
			c.PrependReactor("get", "pods/log", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("x")
			})
			c.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
			})
		}, "  logs: may not list pods"},
	} {
		client := fake.NewClientset(objects()...)
		files := bundleOf(t, client, func(s *Sources) { row.edit(client, s) })
		if !strings.Contains(files[ManifestName], row.want) {
			t.Errorf("%s: the manifest lacks %q:\n%s", name, row.want, files[ManifestName])
		}
		if files["objects/nodes.yaml"] == "" || files["doctor.json"] == "" {
			t.Errorf("%s: the rest is not there: %v", name, files[ManifestName])
		}
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.zip")
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	if size, err := Save(path, false, write("one")); err != nil || size != 3 {
		t.Fatalf("%d, %v", size, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Save(path, false, write("two")); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("an existing file: %v", err)
	}
	if _, err := Save(path, true, func(io.Writer) error { return errors.New("half") }); err == nil {
		t.Error("no error")
	}
	late := filepath.Join(filepath.Dir(path), "late.zip")
	if _, err := Save(late, false, func(io.Writer) error { return os.WriteFile(late, []byte("other"), 0o600) }); err == nil {
		t.Error("a file that appears meanwhile was replaced")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "one" {
		t.Errorf("after failures the file has %q, %v", data, err)
	}
	if _, err := Save(path, true, write("three")); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 2 {
		t.Errorf("files %v, %v: want the reports alone", names, err)
	}
	if _, err := Save(filepath.Dir(path), true, write("x")); err == nil {
		t.Error("a directory was replaced")
	}
}
