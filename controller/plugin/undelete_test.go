package plugin_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// trash is the healthy cluster, whose node-01 keeps deleted volumes. It notes the commands that the
// agents got.
type trash struct {
	*scene.Cluster
	kept []recovery.Kept // of node-01
	plan recovery.Volume

	mu  sync.Mutex
	ran []string
}

func undeleting() *trash {
	t := &trash{Cluster: recovering()}
	had, err := recovery.Decode([]byte(t.Prints["agent-node-01 recover"].Out))
	if err != nil {
		panic(err) // of a fixture
	}
	t.Prints["agent-node-01 recover"] = scene.JSON(recovery.Plan{Version: 1, Node: "node-01"})
	t.plan = had.Volumes[0]
	t.plan.Cluster, t.plan.Kept, t.plan.PVUID, t.plan.Notes = "here", "ID1", "its PV", nil
	t.kept = []recovery.Kept{
		{Pool: "/var/hpvolumes", PoolUUID: "pool", ID: "ID1", Name: "pvc-7", PV: "pvc-7", Namespace: "shop", Claim: "orders", Bytes: gib, Created: ago(9), Deleted: ago(1)},
		{Pool: "/var/hpvolumes", PoolUUID: "pool", ID: "ID8", Name: "pvc-8", PV: "pvc-8", Namespace: "shop", Claim: "other", Bytes: gib, Created: ago(9), Deleted: ago(2)},
	}
	t.Exec = t.run
	return t
}

func (t *trash) run(pod string, command []string) scene.Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	words := strings.Join(command[1:], " ")
	t.ran = append(t.ran, pod+" "+words)
	switch {
	case strings.HasPrefix(words, "trash plan "):
		return scene.JSON(recovery.Plan{Version: 1, Volumes: []recovery.Volume{t.plan}})
	case strings.HasPrefix(words, "trash undelete "):
		return scene.Answer{Err: "name pvc-7 is in use", Code: 1}
	case words == "trash -o json" && t.Prints[pod+" trash"].Code == 0:
		all := map[string]any{"kept": []recovery.Kept{}, "going": []string{}}
		if pod == "agent-node-01" {
			all["kept"] = t.kept
		}
		return scene.JSON(all)
	}
	return t.Answer(pod, command)
}

// wrote returns the commands that changed a pool.
func (t *trash) wrote() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.ran), func(c string) bool { return !strings.Contains(c, " trash undelete ") })
}

// A deleted volume is named by its claim, its PV, or its node and ID. The plan says what is made, or why
// it is left, and nothing is written without a yes.
func TestUndelete(t *testing.T) {
	for what, row := range map[string]struct {
		args   []string
		change func(*trash)
		code   int
		want   []string
		wrote  int
	}{
		"by its claim":      {[]string{"orders", "-n", "shop", "--dry-run"}, nil, 0, []string{"node-01", "orders", "1Gi", "pvc-7", "made"}, 0},
		"by its PV":         {[]string{"pvc-7", "--dry-run"}, nil, 0, []string{"orders", "made"}, 0},
		"by its ID":         {[]string{"node-01/ID1", "--dry-run"}, nil, 0, []string{"orders", "made"}, 0},
		"another namespace": {[]string{"orders", "-n", "elsewhere", "--dry-run"}, nil, 1, []string{`no agent keeps a deleted volume of "orders" in namespace elsewhere`, "kubectl hpp trash"}, 0},
		"another node":      {[]string{"node-02/ID1", "--dry-run"}, nil, 1, []string{"no agent keeps"}, 0},
		"no one to ask":     {[]string{"orders", "-n", "shop"}, nil, 1, []string{"undelete writes: see the plan with --dry-run"}, 0},
		"the agent refuses": {[]string{"orders", "-n", "shop", "--yes"}, nil, 1, []string{"failed", "name pvc-7 is in use"}, 1},
		"to a namespace":    {[]string{"orders", "-n", "shop", "--to-namespace=b", "--dry-run"}, nil, 0, []string{"namespace b does not exist"}, 0},
		"to one that exists": {[]string{"orders", "-n", "shop", "--to-namespace=b", "--dry-run"}, func(s *trash) {
			s.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
			s.plan.Objects.PV.Spec.ClaimRef.Namespace, s.plan.Objects.Claim.Namespace = "b", "b"
		}, 0, []string{"NAMESPACE   CLAIM    TO   SIZE", "shop        orders   b    ", "made"}, 0},
		"another cluster":    {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.plan.Cluster = "there" }, 1, []string{"left", "--from-cluster=there"}, 0},
		"made by a tenant":   {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.Lacks = []string{"create persistentvolumes"} }, 1, []string{"is not trusted"}, 0},
		"more than it is":    {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.plan.Objects.PV.Spec.CSI.VolumeHandle = "pvc-9" }, 1, []string{"does not name the volume's directory"}, 0},
		"its name is in use": {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.Add(taken()...) }, 1, []string{"has another volume, PV pvc-9", "scale the workload down", "To keep it, first run: kubectl patch pv pvc-9"}, 0},
		"two generations": {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.kept[1].Claim = "orders" }, 1,
			[]string{"node-01/ID1", "node-01/ID8", "2 deleted volumes have that name", "kubectl hpp undelete node-01/ID1"}, 0},
		"one is silent": {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) { s.Prints["agent-node-02 trash"] = scene.Answer{Err: "away", Code: 1} }, 1,
			[]string{"node node-02 did not answer", "kubectl hpp undelete node-01/ID1"}, 0},
		"one is silent, and it is named": {[]string{"node-01/ID1", "--dry-run"}, func(s *trash) { s.Prints["agent-node-02 trash"] = scene.Answer{Err: "away", Code: 1} }, 0,
			[]string{"orders", "made"}, 0},
		"agents are unknown": {[]string{"orders", "-n", "shop"}, func(s *trash) { s.Forbidden = []string{"pods"} }, 1, []string{"is not known: may not list pods"}, 0},
		"an agent is not asked": {[]string{"orders", "-n", "shop", "--yes"}, func(s *trash) {
			s.Agent("node-02").Spec.ServiceAccountName = "of-a-tenant"
			s.Lacks = []string{"of-a-tenant create persistentvolumes"}
		}, 1, []string{"node node-02 did not answer", "is not trusted", "kubectl hpp undelete node-01/ID1"}, 0},
		"it came back before": {[]string{"orders", "-n", "shop", "--dry-run"}, func(s *trash) {
			s.kept, s.plan.Kept = nil, ""
			s.Prints["agent-node-01 recover"] = scene.JSON(recovery.Plan{Version: 1, Volumes: []recovery.Volume{s.plan}})
		}, 0, []string{"orders", "made"}, 0},
	} {
		s := undeleting()
		if row.change != nil {
			row.change(s)
		}
		code, out, errOut := call(t.Context(), append([]string{"undelete", "--kubeconfig", s.Start(t)}, row.args...)...)
		for _, want := range row.want {
			if !strings.Contains(out+errOut, want) {
				t.Errorf("%s: no %q in\n%s%s", what, want, out, errOut)
			}
		}
		if code != row.code || len(s.wrote()) != row.wrote {
			t.Errorf("%s: code %d, ran %q; %s%s", what, code, s.wrote(), out, errOut)
		}
	}
}

// taken is a claim of the volume's name that has another one.
func taken() []runtime.Object {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "c9"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pvc-9", corev1.ClaimBound
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-9"}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "orders", UID: "c9"}
	pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeBound
	return []runtime.Object{claim, pv}
}

// What pools keep is shown, and the command that brings it back: for a claim that is missing, one that
// was made again, and one whose PV is gone.
func TestKeptIsShown(t *testing.T) {
	c := scene.Healthy()
	lost := scene.Get[corev1.PersistentVolumeClaim](c, "data").DeepCopy()
	lost.Name, lost.UID, lost.Spec.VolumeName, lost.Status.Phase = "lost", "c-lost", "pvc-lost", corev1.ClaimLost
	c.Add(lost)
	c.Pools["node-01"][0].Kept = []inspect.KeptEntry{
		{ID: "ID1", Name: "pvc-7", PV: "pvc-7", Bytes: gib, Owner: record.Owner{Namespace: "shop", Name: "orders"}, Since: ago(2)},
		{ID: "ID2", Name: "pvc-8", PV: "pvc-8", Bytes: gib, Owner: record.Owner{Namespace: "shop", Name: "data"}, Since: ago(1)},
		{ID: "ID3", Name: "pvc-lost", PV: "pvc-lost", Bytes: gib, Owner: record.Owner{Namespace: "shop", Name: "lost", UID: "c-lost"}, Since: ago(1)},
	}
	kubeconfig := c.Start(t)
	for _, row := range []struct{ call, want string }{
		{"trash", "kept"}, {"trash", "shop/orders"}, {"trash", "ID1"},
		{"explain orders -n shop", "its volume was deleted, and the pool keeps the data: ID1"},
		{"explain orders -n shop", "kubectl hpp undelete node-01/ID1"},
		{"explain data -n shop", "a former claim of this name was deleted"},
		{"explain data -n shop", "kubectl hpp undelete node-01/ID2, if its data is wanted"},
		{"explain lost -n shop", "kubectl hpp undelete node-01/ID3"},
	} {
		out := runPlugin(t.Context(), kubeconfig, append(strings.Fields(row.call), "--timeout", "5m")...)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), row.want) {
			t.Errorf("%s: no %q in\n%s", row.call, row.want, out)
		}
	}
	node := c.Pools["node-01"]
	node[0].Kept = append(node[0].Kept, node[0].Kept[0])
	node[0].Kept[3].ID = "ID4"
	if out := runPlugin(t.Context(), kubeconfig, "explain", "orders", "-n", "shop"); !strings.Contains(out, "2 deleted volumes") ||
		!strings.Contains(out, "kubectl hpp undelete orders -n shop") || strings.Contains(out, "ID1") {
		t.Errorf("one of two deleted volumes is chosen:\n%s", out)
	}
	if out := runPlugin(t.Context(), kubeconfig, "explain", "lost", "-n", "shop"); strings.Contains(out, "delete the claim") {
		t.Errorf("a claim is given up whose data is kept:\n%s", out)
	}
}

// The list says of a kept volume for how long it is kept, that undelete refuses it, and why; it does not need
// that answer.
func TestTrashSaysWhatUndeleteRefuses(t *testing.T) {
	for what, row := range map[string]struct {
		change func(*trash)
		want   bool
		left   string
	}{
		"refused":   {func(s *trash) { s.kept[0].NotOffered = "its record cannot be read" }, true, "0s"},
		"offered":   {func(s *trash) { s.kept[0].Until = ago(-20) }, false, "19d"},
		"over":      {func(*trash) {}, false, "0s"},
		"no answer": {func(s *trash) { s.Prints["agent-node-01 trash"] = scene.Answer{Err: "away", Code: 1} }, false, "-"},
	} {
		s := undeleting()
		s.Pools["node-01"][0].Kept = []inspect.KeptEntry{{ID: "ID1", Name: "pvc-7", Bytes: gib, Owner: record.Owner{Namespace: "shop", Name: "orders"}, Since: ago(2)}}
		s.kept[0].Until = ago(1)
		row.change(s)
		code, out, errOut := call(t.Context(), "trash", "--kubeconfig", s.Start(t))
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), row.left+" kept") || !strings.Contains(out, "ID1") || strings.Contains(out, "undelete refuses it: its record cannot be read") != row.want {
			t.Errorf("%s: code %d, %s%s", what, code, out, errOut)
		}
	}
}

// A claim that is gone may have a kept volume on a node that does not answer: that is said, and not passed
// over.
func TestKeptMayBeUnknown(t *testing.T) {
	silent := partly()
	silent.Exec = func(string, []string) scene.Answer {
		return scene.Answer{Unreachable: "error dialing backend: no route"}
	}
	for want, c := range map[string]*scene.Cluster{
		"is kept: node node-01: ":                     silent,
		"is kept: may not run commands in the agents": forbidden("pods/exec"),
		"": scene.Healthy(),
	} {
		code, _, errOut := call(t.Context(), "explain", "gone", "-n", "shop", "--kubeconfig", c.Start(t))
		if code == 0 || !strings.Contains(errOut, want) || strings.Contains(errOut, "unknown") != (want != "") {
			t.Errorf("want %q: code %d, %s", want, code, errOut)
		}
	}
}
