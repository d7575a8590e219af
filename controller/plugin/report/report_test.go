package report

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// canary is in every place from which nothing may come into a report.
const canary = "hunter2"

// leaky is the healthy cluster with canaries in all of its objects, and in objects of others.
func leaky() *scene.Cluster {
	c := scene.Healthy()
	agent, ds := c.Agent("node-01"), scene.Get[appsv1.DaemonSet](c, "agents")
	agent.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "hostpath-provisioner", RestartCount: 1}}
	for _, spec := range []*corev1.PodSpec{&agent.Spec, &ds.Spec.Template.Spec} {
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "PV_DIR", Value: "/var/hpvolumes"}, corev1.EnvVar{Name: "API_TOKEN", Value: canary},
			corev1.EnvVar{Name: "REFERENCE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "reference-stays"}}})
		spec.Containers = append(spec.Containers, corev1.Container{Name: "injected", Env: []corev1.EnvVar{{Name: "PLAIN", Value: canary}}})
	}
	others := scene.Claim("shop", "of-others-"+canary, "")
	others.Spec.StorageClassName = new(string)
	*others.Spec.StorageClassName = "cloud"
	c.Class("cloud").Parameters = map[string]string{"key": canary, canary: ""}
	c.Claim("data").Labels = map[string]string{"customer": canary}
	c.Event("PersistentVolumeClaim", "data", "X", "it waits, password="+canary)
	c.Event("PersistentVolumeClaim", others.Name, "X", canary)
	c.Add(others, scene.OthersPV("pvc-others-"+canary, "gone"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "s-" + canary}, Data: map[string][]byte{"k": []byte(canary)}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "c-" + canary}, Data: map[string]string{"k": canary}})
	for _, o := range c.Objects {
		m := o.(metav1.Object)
		annotations := m.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kubectl.kubernetes.io/last-applied-configuration"], annotations["example.com/password"] = canary, canary
		m.SetAnnotations(annotations)
		m.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: canary}})
	}
	c.Log = "the proxy is http://svc:" + canary + "@proxy:3128\n--token=" + canary + "\nAuthorization: Bearer " + canary + "\n"
	c.Metrics["agent-node-01"] += "# password: " + canary + "\n"
	c.Prints["agent-node-02 inspect"] = scene.Answer{Out: scene.JSON(c.Pools["node-02"]...).Out, Err: "inspect: cannot reach https://svc:" + canary + "@proxy", Code: 1}
	return c
}

// bundleOf writes the report of a cluster, and returns its files and what was asked for.
func bundleOf(t *testing.T, c *scene.Cluster, edit func(*Sources)) (files map[string]string, asked []string) {
	t.Helper()
	server := c.Serve(t)
	reader := server.Reader()
	s := Sources{Reader: reader, Version: "v1", Timeout: time.Minute, Asker: agents.Asker{Exec: agents.NewExec(server.Config(), reader.Client), Timeout: time.Minute}}
	s.Facts = doctor.Read(t.Context(), reader, server.Ask(reader), time.Minute)
	s.Facts.Now, s.Rows = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), doctor.Run(s.Facts)
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
	files = map[string]string{}
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
	return files, server.Asked()
}

func TestReportHasNoSecrets(t *testing.T) {
	c := leaky()
	c.Forbidden = []string{"leases"}
	files, asked := bundleOf(t, c, nil)
	for name, text := range files {
		if strings.Contains(text, canary) || strings.Contains(name, canary) {
			t.Errorf("%s has the canary:\n%s", name, text)
		}
	}
	if slices.ContainsFunc(asked, func(what string) bool {
		return strings.Contains(what, "secrets") || strings.Contains(what, "configmaps")
	}) {
		t.Errorf("the report asks to %s", asked)
	}
	for name, words := range map[string][]string{
		"objects/nodes.yaml":                                       {"kind: Node", "name: node-01", "name: node-02", `example.com/password: (cut)`},
		"objects/persistentvolumeclaims.yaml":                      {"name: data", contract.AnnSelectedNode + ": node-01", "customer: (cut)"},
		"objects/persistentvolumes.yaml":                           {"name: pvc-1", "name: local-node-01-sdb"},
		"objects/storageclasses.yaml":                              {"name: cloud", "(cut): (cut)"},
		"objects/pods.yaml":                                        {"name: agent-node-01", "name: operator-1", "/var/hpvolumes", "reference-stays"},
		"objects/daemonsets.yaml":                                  {"kind: DaemonSet", "/var/hpvolumes"},
		"objects/events/persistentvolumeclaims.yaml":               {"it waits, password=(cut)"},
		"doctor.json":                                              {`"check": "agents"`},
		"metrics/hpp/agent-node-01.txt":                            {"kubevirt_hpp_pool_quota_enforced", "password: (cut)"},
		"inspect/hpp/agent-node-01.json":                           {`"version": 1`},
		"inspect/hpp/disks-node-01.json":                           {"/dev/sdb"},
		"logs/hpp/agent-node-01/hostpath-provisioner.log":          {"http://(cut)@proxy:3128", "--token=(cut)", "Bearer (cut)"},
		"logs/hpp/agent-node-01/hostpath-provisioner.previous.log": {"(cut)"},
		"logs/hpp/operator-1/hostpath-provisioner-operator.log":    {"(cut)"},
		ManifestName: {"Report of kubectl hpp v1, 2026-01-01T12:00:00Z", "objects/leases.yaml: may not list leases", "https://(cut)@proxy",
			"logs/hpp/agent-node-01/injected.log: the container is not of hostpath-provisioner", "Secrets and ConfigMaps: none is read"},
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
		change func(c *scene.Cluster)
		want   string
	}{
		"dead node":  {func(c *scene.Cluster) { c.Prints["agent-node-01 inspect"] = scene.Answer{Unreachable: "no route"} }, "inspect/hpp/agent-node-01.json: node node-01: unable to upgrade connection: no route"},
		"no metrics": {func(c *scene.Cluster) { c.Forbidden = []string{"pods/proxy"} }, "metrics/hpp/agent-node-01.txt: may not get pods/proxy"},
		"no pods":    {func(c *scene.Cluster) { c.Forbidden = []string{"pods"} }, "logs: may not list pods"},
		"no logs":    {func(c *scene.Cluster) { c.Forbidden = []string{"pods/log"} }, "hostpath-provisioner.log: cannot read the log: you may not"},
		"no exec":    {func(*scene.Cluster) {}, "inspect: may not run commands"},
	} {
		c := scene.Healthy()
		row.change(c)
		files, _ := bundleOf(t, c, func(s *Sources) {
			if name == "no exec" {
				s.NoAsker = "may not run commands"
			}
		})
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
