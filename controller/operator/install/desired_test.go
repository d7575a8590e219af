package install

import (
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
)

// pod returns the agents' pod for a spec.
func pod(t *testing.T, spec v1beta1.HostPathProvisionerSpec) corev1.PodSpec {
	t.Helper()
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp", UID: "1"}, Spec: spec}
	objects, err := Settings{Installation: apply.Installation{Namespace: "ns", PartOf: "whole", Installer: "v2"}, Image: "image:v1"}.desired(cr, plan{Layout: layout.Of(cr)})
	if err != nil {
		t.Fatal(err)
	}
	var ds appsv1.DaemonSet
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" && (ns != "ns" || len(o.GetOwnerReferences()) != 1) {
			t.Errorf("%s in %s with owners %v", o.GetKind(), ns, o.GetOwnerReferences())
		}
		for key, want := range map[string]string{"k8s-app": "hostpath-provisioner", "app.kubernetes.io/part-of": "whole",
			"app.kubernetes.io/version": "v2", apply.ManagedBy: apply.Owner, "app.kubernetes.io/component": "storage"} {
			if got := o.GetLabels()[key]; got != want {
				t.Errorf("%s: label %s is %q, want %q", o.GetKind(), key, got, want)
			}
		}
		if subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects"); len(subjects) > 0 && subjects[0].(map[string]any)["namespace"] != "ns" {
			t.Errorf("%s: subjects %v", o.GetKind(), subjects)
		}
		if o.GetKind() == "DaemonSet" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ds); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ds.Spec.Template.Spec
}

func TestAgentOfPools(t *testing.T) {
	p := pod(t, v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{
		{Name: "b", Path: "/srv/b/"}, {Name: "Bad_Name", Path: "/srv/a"}, {Name: "shared", Path: "/srv/c", PVCTemplate: &corev1.PersistentVolumeClaimSpec{}},
	}})
	agent := p.Containers[0]
	if agent.Image != "image:v1" || agent.ImagePullPolicy != corev1.PullIfNotPresent || !maps.Equal(p.NodeSelector, map[string]string{corev1.LabelOSStable: "linux"}) || p.Tolerations != nil {
		t.Errorf("pod %+v", p)
	}
	env := map[string]string{}
	for _, v := range agent.Env {
		env[v.Name] = v.Value
	}
	if got, want := env["DATADIR"], `[{"name":"Bad_Name","path":"/srv/a/csi"},{"name":"b","path":"/srv/b/csi"},{"name":"shared","path":"/srv/c/csi","mount":"/srv/c/csi"}]`; got != want || env["PROVISION"] != "csi" {
		t.Errorf("variables %v, want pools %s", env, want)
	}
	mounts := map[string]string{}
	for _, m := range agent.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	for _, v := range p.Volumes {
		if strings.HasPrefix(v.Name, "pool-") && v.HostPath.Path != mounts[v.Name] {
			t.Errorf("volume %s is %s, mounted at %s", v.Name, v.HostPath.Path, mounts[v.Name])
		}
	}
	if mounts["pool-b"] != "/srv/b" || mounts["pool-9565b606"] != "/srv/a" || len(mounts) != 6 {
		t.Errorf("mounts %v", mounts)
	}
}

// onBlock is a template that is refused.
var onBlock = &corev1.PersistentVolumeClaimSpec{VolumeMode: ptr.To(corev1.PersistentVolumeBlock)}

// A resource without a pool that can be offered leaves the agents as they are.
func TestNoPoolNoDaemonSet(t *testing.T) {
	p := pod(t, v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "a", Path: "/a", PVCTemplate: onBlock}}})
	if len(p.Containers) != 0 {
		t.Errorf("pod %+v", p)
	}
}

func TestRefusedPools(t *testing.T) {
	shared := &corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}
	cr := &v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{
		{Name: "b", Path: "/b", PVCTemplate: shared, OverlayClassName: "x"}, {Name: "c", Path: "/c"}, {Name: "a", Path: "/a", PVCTemplate: onBlock, SnapshotProvider: "reflink"},
	}, FeatureGates: []string{"Snapshotting", "Nonsense"}}}
	l := plan{Layout: layout.Of(cr)}
	open := contract.NodePools{Pools: []contract.NodePool{{Name: "c", Open: true}}}
	ready := agents{State: agentstatus.State{Desired: 2, Ready: 2, Agents: []agentstatus.Agent{
		{Node: "n1", Ready: true, Pools: open}, {Node: "n2", Ready: true, Pools: open}}}}
	v := verdictOf(v1beta1.HostPathProvisionerStatus{ObservedVersion: "1", TargetVersion: "1"}, l, ready, true)
	if v.available != yes || reasons[v.reason].degraded != yes || v.reason != "StoragePoolUnsupported" || !strings.Contains(v.message, "pool a: ") || !strings.Contains(v.message, "pool b: nodes cannot share") {
		t.Errorf("%+v", v)
	}
	r, waits := &Reconciler{Now: time.Now}, claimpools.State{Problems: []string{"claim c is not bound"}}
	for want, l := range map[string]plan{
		"Failed StoragePoolUnsupported":  {Layout: layout.Layout{Refused: l.Refused[:1]}},
		"Failed SharedPoolUnsupported":   {Layout: layout.Layout{Refused: l.Refused[1:]}},
		"Failed SettingInvalid":          {Layout: layout.Layout{Invalid: []string{"RESERVE is odd"}}, claims: claimpools.Result{States: []claimpools.State{waits}}},
		"InProgress StoragePoolNotReady": {claims: claimpools.Result{States: []claimpools.State{waits}}},
	} {
		status := v1beta1.HostPathProvisionerStatus{ObservedVersion: "1", TargetVersion: "1"}
		v := verdictOf(status, l, ready, true)
		if r.conditions(&status, v, nil); kstatus(0, status)+" "+v.reason != want {
			t.Errorf("%s %s, want %s", kstatus(0, status), v.reason, want)
		}
	}
	text := strings.Join(admission.Notes(cr), "\n")
	for _, words := range []string{"snapshots are not offered", "Nonsense is unknown", "pool a: snapshotProvider", "pool b: overlayClassName"} {
		if !strings.Contains(text, words) {
			t.Errorf("no %q in %s", words, text)
		}
	}
	states := l.statuses(ready)
	if len(states) != 3 || states[0].Name != "a" || states[0].Phase != v1beta1.Preparing || states[2].Phase != v1beta1.Ready || states[2].CurrentReady != 2 {
		t.Errorf("%+v", states)
	}
}

// A pool with a nodeSelector is wanted on the nodes whose agents publish it.
func TestSelectedPools(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{
		{Name: "a", Path: "/a"}, {Name: "c", Path: "/c", NodeSelector: map[string]v1beta1.LabelValue{"disk": "fast"}}}}}
	open := func(pools ...string) contract.NodePools {
		n := contract.NodePools{Pools: []contract.NodePool{}}
		for _, name := range pools {
			n.Pools = append(n.Pools, contract.NodePool{Name: name, Open: true})
		}
		return n
	}
	a := agents{State: agentstatus.State{Desired: 2, Ready: 2, Agents: []agentstatus.Agent{
		{Node: "n1", Ready: true, Pools: open("a", "c")}, {Node: "n2", Ready: true, Pools: open("a")}}}}
	s := plan{Layout: layout.Of(cr)}.statuses(a)
	if s[0].DesiredReady != 2 || s[0].Phase != v1beta1.Ready || s[1].DesiredReady != 1 || s[1].CurrentReady != 1 || s[1].Phase != v1beta1.Ready {
		t.Errorf("%+v", s)
	}
	a.Agents[0].Pools = open("a")
	if s = (plan{Layout: layout.Of(cr)}).statuses(a); s[1].DesiredReady != 0 || s[1].Phase == v1beta1.Ready {
		t.Errorf("without a node: %+v", s[1])
	}
}

// A pool that is not open on a node keeps no agent from an update, and is told.
func TestClosedPools(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "c", Path: "/c"}}}}
	l, r := plan{Layout: layout.Of(cr)}, &Reconciler{Now: time.Now, Settings: Settings{Version: "2"}}
	agent := func(node string, open bool, openIn string) agentstatus.Agent {
		return agentstatus.Agent{Node: node, Ready: true, Pools: contract.NodePools{Pod: "new-" + node, Pools: []contract.NodePool{
			{Name: "c", Open: open, OpenIn: openIn, Why: "its disk is not mounted"}}}}
	}
	for name, row := range map[string]struct {
		state                      agentstatus.State
		version, reason, available string
		words                      []string
	}{
		"open": {agentstatus.State{Desired: 2, Ready: 2, Agents: []agentstatus.Agent{agent("n1", true, "new-n1"), agent("n2", true, "new-n2")}},
			"2", "Complete", "True", []string{"Application Available"}},
		"one of two": {agentstatus.State{Desired: 2, Ready: 2, Agents: []agentstatus.Agent{agent("n1", true, "new-n1"), agent("n2", false, "")}},
			"2", "StoragePoolNotReady", "True", []string{"pool c is not open on node n2: its disk is not mounted"}},
		"none": {agentstatus.State{Desired: 1, Ready: 1, Agents: []agentstatus.Agent{agent("n1", false, "")}},
			"2", "StoragePoolNotReady", "False", []string{"pool c is not open on node n1"}},
		"by the rollout": {agentstatus.State{Desired: 2, Ready: 2, Agents: []agentstatus.Agent{agent("n1", true, "new-n1"), agent("n2", false, "old-n2")}},
			"2", "StoragePoolNotReady", "True", []string{"pool c on node n2 was open before its agent was replaced, and is not since"}},
		"in the rollout": {agentstatus.State{Desired: 3, Ready: 2, Rolling: true, Agents: []agentstatus.Agent{agent("n1", false, ""), agent("n2", false, "old-n2")}},
			"1", "UpgradeStarted", "True", []string{"Started upgrade", "; pool c on node n2 was open before its agent was replaced"}},
		"beside an agent that is not ready": {agentstatus.State{Desired: 2, Ready: 1, Unready: []string{"n1"}, Agents: []agentstatus.Agent{{Node: "n1"}, agent("n2", false, "")}},
			"2", "Degraded", "False", []string{"1 of 2 agents are ready; not ready: n1; pool c is not open on node n2"}},
		"not published": {agentstatus.State{Desired: 1, Ready: 1, Agents: []agentstatus.Agent{{Node: "n1", Ready: true}}},
			"2", "StoragePoolNotReady", "False", []string{"the agent on node n1 does not publish its pools"}},
	} {
		cr.Status = v1beta1.HostPathProvisionerStatus{ObservedVersion: "1"}
		if row.version == "2" {
			cr.Status.ObservedVersion = "2"
		}
		s := r.judge(cr, l, agents{State: row.state})
		c := progress(s)
		if c.Reason != row.reason || string(s.Conditions[0].Status) != row.available {
			t.Errorf("%s: %s, Available=%s: %s", name, c.Reason, s.Conditions[0].Status, c.Message)
		}
		for _, words := range row.words {
			if !strings.Contains(c.Message, words) {
				t.Errorf("%s: %q, want %q", name, c.Message, words)
			}
		}
		if p := s.StoragePoolStatuses[0]; (p.Phase == v1beta1.Ready) != (name == "open") || p.CurrentReady != row.state.Open("c") {
			t.Errorf("%s: %+v", name, p)
		}
		if want := row.version; s.ObservedVersion != want {
			t.Errorf("%s: version %s, want %s", name, s.ObservedVersion, want)
		}
	}
}
