package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

var update = flag.Bool("update", false, "write testdata/fields.txt")

// plant puts a text into every string of a value, at any depth: also into the keys of maps.
func plant(v reflect.Value, depth int) {
	if depth > 14 || !v.CanSet() || v.Type() == reflect.TypeFor[*metav1.FieldsV1]() { // JSON of its own
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(canary)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		plant(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			plant(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plant(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		plant(key, depth+1)
		plant(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// planted returns the paths of the values that have the text.
func planted(at string, value any, all map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if key == canary {
				key = "*"
			}
			planted(strings.TrimPrefix(at+"."+key, "."), field, all)
		}
	case []any:
		for _, item := range v {
			planted(at, item, all)
		}
	case string:
		if strings.Contains(v, canary) {
			all[at] = true
		}
	}
}

// A secret in any string field of any object is in no report, but for the fields in testdata/fields.txt:
// names, places, sizes and messages. Who adds one there, or in fields.go, shows that no secret can be in
// it. Objects are those of this project's containers, whose arguments are flags.
func TestEveryField(t *testing.T) {
	var got strings.Builder
	for _, row := range []struct {
		kind string
		of   any
	}{
		{"Node", &corev1.Node{}}, {"CSINode", &storagev1.CSINode{}}, {"CSIDriver", &storagev1.CSIDriver{}},
		{"StorageClass", &storagev1.StorageClass{}}, {"PersistentVolume", &corev1.PersistentVolume{}},
		{"PersistentVolumeClaim", &corev1.PersistentVolumeClaim{}}, {"CSIStorageCapacity", &storagev1.CSIStorageCapacity{}},
		{"DaemonSet", &appsv1.DaemonSet{}}, {"Pod", &corev1.Pod{}}, {"Lease", &coordinationv1.Lease{}}, {"Event", &corev1.Event{}},
		{"HostPathProvisioner", &hpp.HostPathProvisioner{}},
	} {
		v := reflect.ValueOf(row.of).Elem()
		for i := range v.NumField() {
			plant(v.Field(i), 0)
		}
		if m, ok := row.of.(metav1.Object); ok && row.kind == "PersistentVolumeClaim" {
			m.SetLabels(map[string]string{"customer": canary})
		}
		for _, spec := range []*corev1.PodSpec{podSpec(row.of)} {
			if spec != nil {
				spec.Containers[0].Name, spec.InitContainers[0].Name = "hostpath-provisioner", "hostpath-provisioner"
			}
		}
		data, dropped, err := redacted(row.of, "v1", row.kind)
		if err != nil || dropped == 0 && row.kind != "CSIStorageCapacity" {
			t.Errorf("%s: %d values are left out, %v", row.kind, dropped, err)
		}
		var back any
		if err := yaml.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		planted("", back, all)
		for _, path := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&got, "%s %s\n", row.kind, path)
		}
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/fields.txt", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/fields.txt")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; the fields that may have any text are now\n%s", err, got.String())
	}
}

func podSpec(of any) *corev1.PodSpec {
	switch o := of.(type) {
	case *corev1.Pod:
		return &o.Spec
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec
	}
	return nil
}

// stringsOf returns each string field of a value, at any depth, with its path as JSON has it.
func stringsOf(v reflect.Value, at string, all map[string]reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			all[strings.TrimPrefix(at, ".")] = v
		}
	case reflect.Pointer, reflect.Interface:
		stringsOf(v.Elem(), at, all)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" {
				name = "." + name
			}
			stringsOf(v.Field(i), at+name, all)
		}
	case reflect.Slice:
		for i := range v.Len() {
			stringsOf(v.Index(i), at, all)
		}
	}
}

// FuzzSecrets plants a secret in one string field of one object of a cluster, in the log, in the
// metrics, and in what an agent prints, and writes the report. It is nowhere, but for fields in
// testdata/fields.txt.
func FuzzSecrets(f *testing.F) {
	shown, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		f.Fatal(err)
	}
	for i := range leaky().Objects {
		f.Add(uint16(i), uint16(7*i), "correct-horse-battery")
	}
	f.Fuzz(func(t *testing.T, object, field uint16, secret string) {
		if len(secret) < 8 || strings.ContainsFunc(secret, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) }) || strings.Trim(secret, "-") != secret {
			t.Skip("it is found as it is in no text")
		}
		secret = "s3cr3t-" + secret
		c := leaky()
		planted := map[string]reflect.Value{}
		o := c.Objects[int(object)%len(c.Objects)]
		stringsOf(reflect.ValueOf(o), "", planted)
		path := slices.Sorted(maps.Keys(planted))[int(field)%len(planted)]
		planted[path].SetString(secret)
		c.Log = "--password " + "login https://svc:" + secret + "@proxy, token=" + secret + "\n"
		c.Metrics["agent-node-02"] += "# token: " + secret + "\n"
		c.Prints["agent-node-02 inspect"] = scene.Answer{Out: scene.JSON(c.Pools["node-02"]...).Out, Err: "inspect: Authorization: Bearer " + secret, Code: 1}
		if kind := reflect.TypeOf(o).Elem().Name(); strings.Contains(string(shown), kind+" "+path+"\n") || structural(path) {
			return // it may be shown, or decides whose the object is
		}
		files, _ := bundleOf(t, c, nil)
		for name, text := range files {
			if strings.Contains(name+text, secret) {
				t.Errorf("%s of %T is in %s:\n%s", path, o, name, text)
			}
		}
	})
}

// structural reports whether a field is a name, a kind or a mark by which objects are found, or the value
// of a variable, which TestContainers plants.
func structural(path string) bool {
	last := path[strings.LastIndex(path, ".")+1:]
	return strings.HasSuffix(path, "env.value") || slices.Contains([]string{"name", "namespace", "kind", "apiVersion", "uid", "claimName", "nodeName"}, last)
}

// Another program's container has a name and an image, and nothing else; of our own the variables are
// those of this project.
func TestContainers(t *testing.T) {
	pod := &corev1.Pod{}
	statuses := []any{map[string]any{"name": "injected", "state": canary, "lastState": canary, "ready": true}, map[string]any{"name": "hostpath-provisioner", "state": "stays"}}
	if redact(map[string]any{"containerStatuses": statuses}); strings.Contains(fmt.Sprint(statuses), canary) || !strings.Contains(fmt.Sprint(statuses), "stays") {
		t.Errorf("%v", statuses)
	}
	plant(reflect.ValueOf(&pod.Spec).Elem(), 0)
	data, _, err := redacted(pod, "v1", "Pod")
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Spec struct{ Containers, InitContainers []map[string]any }
	}
	if err := yaml.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(back.Spec.Containers, back.Spec.InitContainers) {
		if len(c) != 2 || c["name"] != canary || c["image"] != canary {
			t.Errorf("%v", c)
		}
	}
	for name, want := range map[string]bool{"PV_DIR": true, "HPP_RESERVE": true, "LP_NODE_NAME": true, "HTTPS_PROXY": false, "HPP_SECRET_X": false, "PATH": false, "API_TOKEN": false} {
		env := []any{map[string]any{"name": name, "value": canary}}
		cutEnv(env)
		if shown := env[0].(map[string]any)["value"] == canary; shown != want {
			t.Errorf("%s: shown %t", name, shown)
		}
	}
}

// Secrets in messages and logs are cut, and nothing else.
func TestScrubbed(t *testing.T) {
	for text, want := range map[string]string{
		"get https://svc:hunter2@proxy:3128/x failed":                                        "get https://(cut)@proxy:3128/x failed",
		"mount //svc:hunter2@filer/share failed":                                             "mount //svc:hunter2@filer/share failed", // no URL: its event is another driver's
		"Authorization: Bearer hunter2hunter2":                                               "Authorization: Bearer (cut)",
		"agent --password hunter2 --pool fast":                                               "agent --password (cut) --pool fast",
		"got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2ln of it":                            "got (cut) of it",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nhunter2\n-----END RSA PRIVATE KEY-----\nend": "(cut)\nend",
		"--password=hunter2 --pool=fast":                                                     "--password=(cut) --pool=fast",
		`{"access_token": "hunter2", "n": 1}`:                                                `{"access_token": (cut)", "n": 1}`,
		"pvc-0b5ab5fe-0f8b-4f5e-8a39-3c1f6f0d8a11/a/b.txt":                                   "pvc-0b5ab5fe-0f8b-4f5e-8a39-3c1f6f0d8a11/(cut)",
		"node node-01: 70Gi of 252Gi available in /var/hpvolumes, https://example.com/docs":  "node node-01: 70Gi of 252Gi available in /var/hpvolumes, https://example.com/docs",
	} {
		if got := scrubbed(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Of what an agent prints the names that people gave are cut, and what is no JSON is left out.
func TestInspected(t *testing.T) {
	b := &bundle{}
	report := map[string]any{"version": 1, "new": canary, "unrecorded": []any{map[string]any{"name": canary}, map[string]any{"name": "pvc-0b5ab5fe-0f8b-4f5e-8a39-3c1f6f0d8a11"}},
		"trash": []any{map[string]any{"id": "x", "stuck": "remove " + canary + ": operation not permitted"}, map[string]any{"stuck": canary}}}
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	out, why := b.inspected(append(append(data, data...), "panic: "+canary...))
	if why == "" || strings.Contains(string(out), canary) || b.dropped == 0 ||
		strings.Count(string(out), "operation not permitted") != 2 || strings.Count(string(out), "pvc-0b5a") != 2 {
		t.Errorf("%s: %s, %d left out", why, out, b.dropped)
	}
	if out, why := b.inspected([]byte(`[{"device": "/dev/sdb", "other": "hunter2"}]`)); why != "" || strings.Contains(string(out), canary) || !strings.Contains(string(out), "/dev/sdb") {
		t.Errorf("%s: %s", why, out)
	}
}

// Events about objects of others, and about objects that the report does not have, are left out.
func TestEventsOfOthers(t *testing.T) {
	f := &doctor.Facts{}
	f.Claims.Items = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ours"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local")}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "others"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("cloud")}}}
	f.Classes.Items = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: contract.HostPathProvisioner}, {ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Provisioner: "ebs.csi.aws.com"}}
	ours := sieveOf(f, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "agent-1"}}})
	for about, want := range map[string]bool{
		"PersistentVolumeClaim shop ours X": true, "PersistentVolumeClaim shop others X": false, "PersistentVolumeClaim shop gone ProvisioningFailed": false,
		"PersistentVolume  gone X": false, "Node  node-01 PoolNotReady": true, "Node  node-01 NodeNotReady": true, "Node  node-01 OfOthers": false,
		"Pod hpp agent-1 X": true, "Pod hpp other X": false, "Secret hpp s X": false,
	} {
		w := strings.Split(about, " ")
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: w[1]}, Reason: w[3], InvolvedObject: corev1.ObjectReference{Kind: w[0], Namespace: w[1], Name: w[2]}}
		if got := ours.event(e); got != want {
			t.Errorf("%s: %t", about, got)
		}
	}
}
