package claims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func testPlacer() *placer {
	return &placer{node: "node-01", class: classtest.Class,
		dialects:   map[string]contract.Dialect{contract.HostPathProvisioner: {ByAnnotation: true}, contract.CSIProvisioner: {}, contract.SingleNodeProvisioner: {ByAnnotation: true, OnlyNode: true}, contract.LocalPathProvisioner: {}},
		offered:    func(*storagev1.StorageClass) bool { return true },
		published:  contract.CSIProvisioner,
		isLocalPV:  func(pv string) bool { return pv == "pv-here" },
		copiesHere: func(*corev1.PersistentVolumeClaim) bool { return false }}
}

func TestPlace(t *testing.T) {
	const on, chosen = contract.AnnProvisionOnNode, contract.AnnSelectedNode
	for _, row := range []struct {
		what          string
		class, volume string
		annotations   []string
		want          placement
	}{
		{"annotated for this node, Immediate", "now", "", []string{on, "node-01"}, local},
		{"annotated for this node, delayed, no pod yet", "wait", "", []string{on, "node-01"}, local},
		{"annotation wins over the scheduler", "wait", "", []string{on, "node-01", chosen, "node-02"}, local},
		{"annotation for another node wins as well", "wait", "", []string{on, "node-02", chosen, "node-01"}, remoteByAnnotation},
		{"annotated for another node, Immediate", "now", "", []string{on, "node-02"}, remoteByAnnotation},
		{"chosen by the scheduler", "wait", "", []string{chosen, "node-01"}, local},
		{"chosen for another node", "wait", "", []string{chosen, "node-02"}, remoteByScheduler},
		{"waits for its pod", "wait", "", nil, remote},
		{"no node at all", "now", "", nil, unassigned},
		{"no binding mode means Immediate", "unset", "", nil, unassigned},
		{"no class", "", "", []string{on, "node-01"}, remote},
		{"another provisioner's class", "theirs", "", []string{on, "node-01"}, remote},
		{"class not known yet", "later", "", []string{on, "node-01"}, unknown},
		{"bound to a local PV", "theirs", "pv-here", nil, local},
		{"bound to a remote PV", "now", "pv-there", nil, remote},
		{"bound, its class gone", "later", "pv-there", nil, remote},
		{"bound and placed here", "wait", "pv-there", []string{chosen, "node-01"}, local},
		{"only node", "single", "", nil, local},
		{"only node, bound to a PV that is not known yet", "single", "pv-there", nil, local},
		{"only node, annotated for it", "single", "", []string{on, "node-01"}, local},
		{"only node, annotated for another", "single", "", []string{on, "node-02"}, remoteByAnnotation},
		{"only node, waits for its pod", "single-wait", "", nil, remote},
		{"only node, chosen", "single-wait", "", []string{chosen, "node-01"}, local},
		{"only node, chosen for another", "single-wait", "", []string{chosen, "node-02"}, remoteByScheduler},
		{"local-path has no annotation of users", "local-path", "", []string{on, "node-09", chosen, "node-01"}, local},
		{"local-path, annotated for this node, waits for its pod", "local-path", "", []string{on, "node-01"}, remote},
		{"CSI, chosen", "csi", "", []string{chosen, "node-01"}, local},
		{"CSI, chosen for another", "csi", "", []string{chosen, "node-02"}, remoteByScheduler},
		{"CSI, waits for its pod", "csi", "", nil, unchosen},
		{"CSI, annotated for this node", "csi", "", []string{on, "node-01"}, unchosen},
		{"CSI, annotated for another, chosen", "csi", "", []string{on, "node-02", chosen, "node-01"}, local},
		{"CSI, annotated for this node, another node chosen", "csi", "", []string{on, "node-01", chosen, "node-02"}, remoteByScheduler},
		{"CSI, Immediate", "csi-now", "", nil, unscheduled},
		{"CSI, Immediate, annotated", "csi-now", "", []string{on, "node-01"}, unscheduled},
		{"CSI, no binding mode", "csi-unset", "", nil, unscheduled},
		{"CSI, Immediate, chosen nevertheless", "csi-now", "", []string{chosen, "node-01"}, local},
		{"CSI, Immediate, another node chosen", "csi-now", "", []string{chosen, "node-02"}, remoteByScheduler},
		{"CSI, bound to a local PV", "csi", "pv-here", nil, local},
		{"CSI, Immediate, bound to a remote PV", "csi-now", "pv-there", nil, remote},
	} {
		got := testPlacer().place(classtest.Claim("u", row.class, row.volume, row.annotations...))
		if got != row.want {
			t.Errorf("%s: got %d, want %d", row.what, got, row.want)
		}
	}
}

// A claim that waits for the scheduler, and whose pool this node does not offer, needs an event:
// such a pool has no space to publish, so the scheduler never chooses a node.
func TestPlaceUnserved(t *testing.T) {
	const on, chosen = contract.AnnProvisionOnNode, contract.AnnSelectedNode
	p := testPlacer()
	p.offered = func(c *storagev1.StorageClass) bool {
		return c.Parameters[contract.StoragePool] != "fast" && c.Name != "csi-now"
	}
	for _, row := range []struct {
		what          string
		class, volume string
		annotations   []string
		want          placement
	}{
		{"waits for its pod", "csi-fast", "", nil, unserved},
		{"annotated, which has no effect", "csi-fast", "", []string{on, "node-02"}, unserved},
		{"Immediate", "csi-now", "", nil, unserved},
		{"chosen", "csi-fast", "", []string{chosen, "node-01"}, local},
		{"chosen for another node", "csi-fast", "", []string{chosen, "node-02"}, remoteByScheduler},
		{"bound to a remote PV", "csi-fast", "pv-there", nil, remote},
		{"another pool", "csi", "", nil, unchosen},
		{"hostPath, waits", "wait", "", nil, remote},
		{"hostPath, annotated for another", "wait", "", []string{on, "node-02"}, remoteByAnnotation},
	} {
		if got := p.place(classtest.Claim("u", row.class, row.volume, row.annotations...)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.what, got, row.want)
		}
	}
}

// A process that serves one provisioner takes no claim of the other.
func TestPlaceOneBackend(t *testing.T) {
	for _, row := range []struct{ serves, class string }{
		{contract.HostPathProvisioner, "csi-now"}, {contract.CSIProvisioner, "now"},
	} {
		p := testPlacer()
		p.dialects = map[string]contract.Dialect{row.serves: p.dialects[row.serves]}
		claim := classtest.Claim("u", row.class, "", contract.AnnSelectedNode, "node-01", contract.AnnProvisionOnNode, "node-01")
		if got := p.place(claim); got != remote {
			t.Errorf("served by %s, class %s: %d", row.serves, row.class, got)
		}
	}
}

// A claim that a populator fills is remote until it is bound to a PV of this node.
func TestPlacePopulated(t *testing.T) {
	for _, row := range []struct {
		class, volume string
		annotations   []string
		want          placement
	}{
		{"now", "", []string{contract.AnnProvisionOnNode, "node-01"}, remote},
		{"now", "", []string{contract.AnnProvisionOnNode, "node-09"}, remote},
		{"now", "", nil, remote},
		{"wait", "", []string{contract.AnnSelectedNode, "node-01"}, remote},
		{"csi", "", []string{contract.AnnSelectedNode, "node-01"}, remote},
		{"csi-now", "", nil, remote},
		{"later", "", nil, remote},
		{"csi", "pv-here", nil, local},
		{"now", "pv-here", nil, local},
	} {
		claim := classtest.Claim("u", row.class, row.volume, row.annotations...)
		group := "cdi.kubevirt.io"
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeImportSource", Name: "image"}
		if got := testPlacer().place(claim); got != row.want {
			t.Errorf("%+v: got %d", row, got)
		}
	}
}

func TestPrepare(t *testing.T) {
	const on, chosen, by = contract.AnnProvisionOnNode, contract.AnnSelectedNode, contract.AnnStorageProvisioner
	for _, row := range []struct {
		what        string
		class       string
		annotations []string
		chosen, by  string
	}{
		{"annotated, delayed", "wait", []string{on, "node-01"}, "node-01", contract.HostPathProvisioner},
		{"annotated, the scheduler chose another node", "wait", []string{on, "node-01", chosen, "node-02"}, "node-01", contract.HostPathProvisioner},
		{"annotated, Immediate", "now", []string{on, "node-01"}, "", contract.HostPathProvisioner},
		{"scheduled", "wait", []string{chosen, "node-01"}, "node-01", contract.HostPathProvisioner},
		{"scheduled, CSI", "csi", []string{chosen, "node-01"}, "node-01", contract.CSIProvisioner},
		{"the controller-manager wrote its provisioner: unchanged", "csi", []string{chosen, "node-01", by, contract.CSIProvisioner}, "node-01", contract.CSIProvisioner},
		{"scheduled for another node: unchanged", "csi", []string{on, "node-01", chosen, "node-02"}, "node-02", ""},
		{"not scheduled: unchanged", "csi", nil, "", ""},
		{"Immediate, CSI: unchanged", "csi-now", []string{chosen, "node-01"}, "node-01", ""},
	} {
		in := classtest.Claim("u", row.class, "", row.annotations...)
		before := in.DeepCopy()
		for range 2 { // a claim may pass twice
			sc := classtest.Class(row.class)
			out := prepare(in, sc, "node-01")
			if out.Annotations[chosen] != row.chosen || out.Annotations[by] != row.by {
				t.Errorf("%s: annotations %v", row.what, out.Annotations)
			}
			if out.ManagedFields != nil {
				t.Errorf("%s: managedFields kept", row.what)
			}
			if len(in.Annotations) != len(before.Annotations) || in.ManagedFields == nil {
				t.Fatalf("%s: the claim in the cache was changed", row.what)
			}
			in = out
			in.ManagedFields, before = before.ManagedFields, out.DeepCopy()
		}
	}
}
