package identity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// requires is an affinity to the nodes with one of the values.
func requires(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}}}}
}

func csiPV(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{contract.LabelNode: "n1"}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeAttributes: map[string]string{contract.StoragePool: "p"}}
	pv.Spec.NodeAffinity = requires(contract.TopologyNode, "n1")
	change(pv)
	return pv
}

func pathPV(path string, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{}}}
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	pv.Spec.NodeAffinity = requires(corev1.LabelHostname, "host1")
	change(pv)
	return pv
}

func TestHolderMayEnd(t *testing.T) {
	same := func(*corev1.PersistentVolume) {}
	none := func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity, pv.Labels = nil, nil }
	holder := Holder{Pool: "p", Path: "/srv/p/csi", Node: "n1", Hostname: "host1"}
	absent, long := holder, holder
	absent.Hostname = ""
	long.Node = strings.Repeat("n", 70)
	for _, row := range []struct {
		name   string
		holder Holder
		pv     *corev1.PersistentVolume
		want   Answer
	}{
		{"of the pool and the node", holder, csiPV(same), Foreign},
		{"the Node does not exist", absent, csiPV(same), Foreign},
		{"the label is lost", holder, csiPV(func(pv *corev1.PersistentVolume) { pv.Labels = nil }), Foreign},
		{"the label names another node", holder, csiPV(func(pv *corev1.PersistentVolume) { pv.Labels[contract.LabelNode] = "n2" }), Unclear},
		{"the affinity names another node", holder, csiPV(func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = requires(contract.TopologyNode, "n2") }), Unclear},
		{"both name another node", holder, csiPV(func(pv *corev1.PersistentVolume) {
			pv.Labels[contract.LabelNode], pv.Spec.NodeAffinity = "n2", requires(contract.TopologyNode, "n2")
		}), Ours},
		{"the affinity allows two nodes", holder, csiPV(func(pv *corev1.PersistentVolume) {
			pv.Labels, pv.Spec.NodeAffinity = nil, requires(contract.TopologyNode, "n2", "n3")
		}), Unclear},
		{"neither", holder, csiPV(none), Unclear},
		{"only a label, of another node", holder, csiPV(func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity, pv.Labels[contract.LabelNode] = nil, "n2"
		}), Unclear},
		{"a long name", long, csiPV(func(pv *corev1.PersistentVolume) {
			pv.Labels[contract.LabelNode], pv.Spec.NodeAffinity = contract.LabelValue(long.Node), requires(contract.TopologyNode, long.Node)
		}), Foreign},
		{"of a holder without a node", Holder{Pool: "p", Path: "/srv/p/csi"}, csiPV(same), Unclear},
		{"of another pool", holder, csiPV(func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes[contract.StoragePool] = "q" }), Ours},
		{"of the default pool", Holder{Pool: contract.DefaultPool, Path: "/srv/p/csi", Node: "n1", Hostname: "host1"},
			csiPV(func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes = nil }), Foreign},
		{"of another driver", holder, csiPV(func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }), Ours},
		{"a directory of the pool", holder, pathPV("/srv/p/csi/v", same), Foreign},
		{"the pool's directory", holder, pathPV("/srv/p/csi/", same), Foreign},
		{"a directory elsewhere", holder, pathPV("/srv/p/csi2/v", same), Ours},
		{"a directory on another node", holder, pathPV("/srv/p/csi/v", func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = requires(corev1.LabelHostname, "host2")
		}), Ours},
		{"a directory on the node by its name", holder, pathPV("/srv/p/csi/v", func(pv *corev1.PersistentVolume) {
			pv.Spec.NodeAffinity = requires(corev1.LabelHostname, "n1")
		}), Foreign},
		{"a directory on any node", holder, pathPV("/srv/p/csi/v", none), Unclear},
		{"a directory on an absent Node", absent, pathPV("/srv/p/csi/v", same), Unclear},
		{"a directory on an absent Node that is annotated", absent, pathPV("/srv/p/csi/v", func(pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionOnNode] = "n1"
		}), Unclear},
		{"a directory on another annotated node", absent, pathPV("/srv/p/csi/v", func(pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionOnNode] = "n2"
		}), Ours},
	} {
		var uses []Use
		if u, ok := UseOfPV(row.pv); ok {
			uses = append(uses, u)
		}
		got := row.holder.MayEnd(uses)
		if got.Answer != row.want || (got.Why == "") != (row.want == Ours) || row.want != Ours && !strings.Contains(got.Why, "PV pv") {
			t.Errorf("a PV, %s: %s %q, want %s", row.name, got.Answer, got.Why, row.want)
		}
	}
}

func TestHolderMayEndWithPods(t *testing.T) {
	for _, row := range []struct {
		name, node, pool, driver string
		phase                    corev1.PodPhase
		want                     Answer
	}{
		{"it runs", "n1", "p", contract.CSIProvisioner, corev1.PodRunning, Foreign},
		{"it starts", "n1", "p", contract.CSIProvisioner, corev1.PodPending, Foreign},
		{"it does not answer", "n1", "p", contract.CSIProvisioner, corev1.PodUnknown, Foreign},
		{"it has ended", "n1", "p", contract.CSIProvisioner, corev1.PodSucceeded, Ours},
		{"it has failed", "n1", "p", contract.CSIProvisioner, corev1.PodFailed, Ours},
		{"another node", "n2", "p", contract.CSIProvisioner, corev1.PodRunning, Ours},
		{"no node", "", "p", contract.CSIProvisioner, corev1.PodPending, Ours},
		{"another pool", "n1", "q", contract.CSIProvisioner, corev1.PodRunning, Ours},
		{"the default pool", "n1", "", contract.CSIProvisioner, corev1.PodRunning, Ours},
		{"another driver", "n1", "p", "other", corev1.PodRunning, Ours},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{NodeName: row.node, Volumes: []corev1.Volume{{}, {
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: row.driver, VolumeAttributes: map[string]string{contract.StoragePool: row.pool}}}}}},
			Status: corev1.PodStatus{Phase: row.phase}}
		got := Holder{Pool: "p", Path: "/srv/p/csi", Node: "n1"}.MayEnd(UsesOfPod(pod))
		if got.Answer != row.want || row.want != Ours && !strings.Contains(got.Why, "pod ns/pod") {
			t.Errorf("a pod, %s: %s %q, want %s", row.name, got.Answer, got.Why, row.want)
		}
	}
}
