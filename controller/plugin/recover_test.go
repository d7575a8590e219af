package plugin_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// recovering is the healthy cluster, of which node-01 has a volume that was recorded in another one, and
// a directory without a record. The disks of node-02 have none.
func recovering() *scene.Cluster {
	c := scene.Healthy()
	c.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "here"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	class := "fast"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	claim.Spec.VolumeName, claim.Spec.StorageClassName = "pvc-7", &class
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-7", Labels: map[string]string{contract.LabelNode: "node-01"},
		Annotations: map[string]string{contract.AnnPool: "pool"}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-7"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "orders"}
	pv.Spec.StorageClassName, pv.Spec.Capacity = class, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	recovery.NotePolicy(pv, "Delete")
	v := recovery.Volume{Pool: "/var/hpvolumes", PoolUUID: "pool", Name: "pvc-7", PVName: "pvc-7", Namespace: "shop", Claim: "orders", Bytes: gib,
		Cluster: "there", Created: ago(1), Objects: &recovery.Objects{PV: pv, Claim: claim}, Notes: []string{"class \"fast\" does not exist"}}
	lone := recovery.Volume{Pool: "/var/hpvolumes", PoolUUID: "pool", Name: "by-hand", Problem: "a directory without a record"}
	c.Prints["agent-node-01 recover"] = scene.JSON(recovery.Plan{Version: 1, Node: "node-01", Pools: []string{"pool"}, Volumes: []recovery.Volume{v, lone}})
	c.Prints["agent-node-02 recover"] = scene.JSON(recovery.Plan{Version: 1, Node: "node-02"})
	return c
}

// The plan of all nodes is one table. What was recorded in another cluster is left until that is named.
func TestRecoverPlan(t *testing.T) {
	kubeconfig := recovering().Start(t)
	for _, row := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"orders", "left", "--from-cluster=there", "by-hand", "a directory without a record"}},
		{[]string{"--from-cluster=there"}, []string{"orders", "1Gi", "made", "does not exist"}},
		{[]string{"--from-cluster=there", "-n", "shop", "-o", "wide"}, []string{"pvc-7", "/var/hpvolumes", "made"}},
		{[]string{"-n", "elsewhere"}, []string{"no agent has a volume"}},
	} {
		code, out, errOut := call(t.Context(), append([]string{"recover", "--all", "--dry-run", "--kubeconfig", kubeconfig}, row.args...)...)
		for _, want := range row.want {
			if !strings.Contains(out+errOut, want) || code != 0 {
				t.Errorf("%q: %d, no %q in\n%s%s", row.args, code, want, out, errOut)
			}
		}
	}
	_, out, errOut := call(t.Context(), "recover", "--node", "node-01", "--dry-run", "-o", "json", "--from-cluster=there", "--kubeconfig", kubeconfig)
	var list struct{ Items []recovery.Volume }
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 2 || list.Items[0].Verdict != recovery.Made || !list.Items[0].PVWrite {
		t.Errorf("%v: %s%s", err, out, errOut)
	}
}

// Nothing is written unless its user says which volumes and that they are to be written, and no node is
// passed over in silence.
func TestRecoverAsks(t *testing.T) {
	for what, row := range map[string]struct {
		args   []string
		change func(*scene.Cluster)
		want   string
	}{
		"no nodes":       {nil, nil, "--all, or --node"},
		"all and one":    {[]string{"--all", "--node", "node-01"}, nil, "--all, or --node"},
		"no one to ask":  {[]string{"--all", "--from-cluster=there"}, nil, "--yes if no one can be asked"},
		"all namespaces": {[]string{"--all", "--to-namespace=b"}, nil, "name it with -n"},
		"no such node":   {[]string{"--node", "node-09", "--dry-run"}, nil, "no agent runs there"},
		"agents unknown": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Forbidden = []string{"pods"} }, "unknown: may not list pods"},
		"nodes unknown":  {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Forbidden = []string{"nodes"} }, "unknown: may not list nodes"},
		"a node without": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Add(scene.Node("node-03")) }, "no agent runs there"},
		"not trusted":    {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Lacks = []string{"create persistentvolumes"} }, "is not trusted"},
		"may not review": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Forbidden = []string{"subjectaccessreviews"} }, "can be trusted"},
		"may not exec":   {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Forbidden = []string{"pods/exec"} }, "may not run commands"},
		"an older agent": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) {
			c.Prints["agent-node-02 recover"] = scene.Answer{Err: "unexpected argument", Code: 2}
		}, "unexpected argument"},
		"a later agent": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) { c.Prints["agent-node-02 recover"] = scene.JSON(map[string]int{"version": 2}) }, "version 2"},
		"a pool not read": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) {
			c.Prints["agent-node-02 recover"] = scene.JSON(recovery.Plan{Version: 1, Unread: []string{"pool /b: away"}})
		}, "pool /b: away"},
		"a sidecar's agent": {[]string{"--all", "--dry-run"}, func(c *scene.Cluster) {
			c.Prints["agent-node-02 recover"] = scene.Answer{Err: "this agent sees no PVs", Code: 1}
		}, "sees no PVs"},
	} {
		c := recovering()
		if row.change != nil {
			row.change(c)
		}
		server := c.Serve(t)
		code, out, errOut := call(t.Context(), append([]string{"recover", "--kubeconfig", server.Kubeconfig(t)}, row.args...)...)
		if code == 0 || !strings.Contains(out+errOut, row.want) || what == "agents unknown" && strings.Contains(out, "no agent runs there") {
			t.Errorf("%s: %d, no %q in\n%s%s", what, code, row.want, out, errOut)
		}
		for _, asked := range server.Asked() {
			if strings.HasPrefix(asked, "create /persistentvolume") || strings.HasPrefix(asked, "patch") {
				t.Errorf("%s: %s", what, asked)
			}
		}
	}
}

// What a plan has of names reaches the terminal as text: whoever names a directory does not write to it.
func TestRecoverNamesAreText(t *testing.T) {
	c := recovering()
	hostile := "x\x1b[2J\u202e"
	v := recovery.Volume{Pool: hostile, PoolUUID: "pool", Name: hostile, PVName: hostile, Namespace: hostile, Claim: hostile, Problem: hostile}
	c.Prints["agent-node-01 recover"] = scene.JSON(recovery.Plan{Version: 1, Node: "node-01", Volumes: []recovery.Volume{v}, Unread: []string{hostile}})
	kubeconfig := c.Start(t)
	for _, format := range []string{"wide", "json", "yaml"} {
		_, out, errOut := call(t.Context(), "recover", "--all", "--dry-run", "-o", format, "--kubeconfig", kubeconfig)
		if text := out + errOut; strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, "[2J") {
			t.Errorf("-o %s: %q", format, text)
		}
	}
}
