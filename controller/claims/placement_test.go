package claims

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
)

func testPlacer() *placer {
	return &placer{node: "node-01", class: classtest.Class,
		rules:     map[string]Rule{class.HostPathProvisioner: PlaceHostPath, class.CSIProvisioner: PlaceCSI},
		offered:   func(*storagev1.StorageClass) bool { return true },
		boundHere: func(pv string) bool { return pv == "pv-here" }}
}

func TestPlace(t *testing.T) {
	const on, chosen = class.AnnProvisionOnNode, class.AnnSelectedNode
	for _, row := range []struct {
		what          string
		class, volume string
		annotations   []string
		want          placement
	}{
		{"annotated for us, Immediate", "now", "", []string{on, "node-01"}, ours},
		{"annotated for us, delayed, no pod yet", "wait", "", []string{on, "node-01"}, ours},
		{"annotation wins over the scheduler", "wait", "", []string{on, "node-01", chosen, "node-02"}, ours},
		{"annotation elsewhere wins as well", "wait", "", []string{on, "node-02", chosen, "node-01"}, elsewhere},
		{"annotated for another, Immediate", "now", "", []string{on, "node-02"}, elsewhere},
		{"chosen by the scheduler", "wait", "", []string{chosen, "node-01"}, ours},
		{"chosen for another", "wait", "", []string{chosen, "node-02"}, foreign},
		{"waits for its pod", "wait", "", nil, foreign},
		{"no node at all", "now", "", nil, nobodys},
		{"no binding mode means Immediate", "unset", "", nil, nobodys},
		{"no class", "", "", []string{on, "node-01"}, foreign},
		{"another provisioner's class", "theirs", "", []string{on, "node-01"}, foreign},
		{"class not known yet", "later", "", []string{on, "node-01"}, unknown},
		{"bound to a PV of ours", "theirs", "pv-here", nil, ours},
		{"bound to another's PV", "now", "pv-there", nil, foreign},
		{"bound, its class gone", "later", "pv-there", nil, foreign},
		{"bound and placed here", "wait", "pv-there", []string{chosen, "node-01"}, ours},
		{"CSI, chosen", "csi", "", []string{chosen, "node-01"}, ours},
		{"CSI, chosen for another", "csi", "", []string{chosen, "node-02"}, foreign},
		{"CSI, waits for its pod", "csi", "", nil, foreign},
		{"CSI, annotated for us", "csi", "", []string{on, "node-01"}, foreign},
		{"CSI, annotated for another, chosen", "csi", "", []string{on, "node-02", chosen, "node-01"}, ours},
		{"CSI, annotated for us, another chosen", "csi", "", []string{on, "node-01", chosen, "node-02"}, foreign},
		{"CSI, Immediate", "csi-now", "", nil, unscheduled},
		{"CSI, Immediate, annotated", "csi-now", "", []string{on, "node-01"}, unscheduled},
		{"CSI, no binding mode", "csi-unset", "", nil, unscheduled},
		{"CSI, Immediate, chosen all the same", "csi-now", "", []string{chosen, "node-01"}, ours},
		{"CSI, Immediate, another chosen", "csi-now", "", []string{chosen, "node-02"}, foreign},
		{"CSI, bound to a PV of ours", "csi", "pv-here", nil, ours},
		{"CSI, Immediate, bound to another's PV", "csi-now", "pv-there", nil, foreign},
	} {
		got := testPlacer().place(classtest.Claim("u", row.class, row.volume, row.annotations...))
		if got != row.want {
			t.Errorf("%s: got %d, want %d", row.what, got, row.want)
		}
	}
}

// A claim that waits for the scheduler, and whose pool this node does not offer, needs a word: such a pool has no space
// to publish, so no node is ever chosen.
func TestPlaceUnserved(t *testing.T) {
	const on, chosen = class.AnnProvisionOnNode, class.AnnSelectedNode
	p := testPlacer()
	p.offered = func(c *storagev1.StorageClass) bool {
		return c.Parameters[class.StoragePool] != "fast" && c.Name != "csi-now"
	}
	for _, row := range []struct {
		what          string
		class, volume string
		annotations   []string
		want          placement
	}{
		{"waits for its pod", "csi-fast", "", nil, unserved},
		{"annotated, which means nothing", "csi-fast", "", []string{on, "node-02"}, unserved},
		{"Immediate", "csi-now", "", nil, unserved},
		{"chosen", "csi-fast", "", []string{chosen, "node-01"}, ours},
		{"chosen for another", "csi-fast", "", []string{chosen, "node-02"}, foreign},
		{"bound to another's PV", "csi-fast", "pv-there", nil, foreign},
		{"another pool", "csi", "", nil, foreign},
		{"hostPath, waits", "wait", "", nil, foreign},
		{"hostPath, annotated for another", "wait", "", []string{on, "node-02"}, elsewhere},
	} {
		if got := p.place(classtest.Claim("u", row.class, row.volume, row.annotations...)); got != row.want {
			t.Errorf("%s: got %d, want %d", row.what, got, row.want)
		}
	}
}

// A name that this process does not serve is another one's, whatever it is.
func TestPlaceOneShape(t *testing.T) {
	for _, row := range []struct{ serves, class string }{
		{class.HostPathProvisioner, "csi-now"}, {class.CSIProvisioner, "now"},
	} {
		p := testPlacer()
		p.rules = map[string]Rule{row.serves: p.rules[row.serves]}
		claim := classtest.Claim("u", row.class, "", class.AnnSelectedNode, "node-01", class.AnnProvisionOnNode, "node-01")
		if got := p.place(claim); got != foreign {
			t.Errorf("served by %s, class %s: %d", row.serves, row.class, got)
		}
	}
}

// A claim that a populator fills is nobody's business here, until it is bound to a PV of this node.
func TestPlacePopulated(t *testing.T) {
	for _, row := range []struct {
		class, volume string
		annotations   []string
		want          placement
	}{
		{"now", "", []string{class.AnnProvisionOnNode, "node-01"}, foreign},
		{"now", "", []string{class.AnnProvisionOnNode, "node-09"}, foreign},
		{"now", "", nil, foreign},
		{"wait", "", []string{class.AnnSelectedNode, "node-01"}, foreign},
		{"csi", "", []string{class.AnnSelectedNode, "node-01"}, foreign},
		{"csi-now", "", nil, foreign},
		{"later", "", nil, foreign},
		{"csi", "pv-here", nil, ours},
		{"now", "pv-here", nil, ours},
	} {
		claim := classtest.Claim("u", row.class, row.volume, row.annotations...)
		group := "cdi.kubevirt.io"
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeImportSource", Name: "image"}
		if got := testPlacer().place(claim); got != row.want {
			t.Errorf("%+v: got %d", row, got)
		}
	}
}

func TestWords(t *testing.T) {
	seen := map[string]bool{}
	for where, want := range map[placement]string{
		nobodys: "annotate it with " + class.AnnProvisionOnNode, elsewhere: `node "node-09", which does not exist`,
		unscheduled: `class "fast" has no volumeBindingMode WaitForFirstConsumer; a class cannot be edited`,
	} {
		topic, message := words(where, "node-09", "fast")
		if !strings.Contains(message, want) || seen[topic] {
			t.Errorf("%d: %s: %s", where, topic, message)
		}
		seen[topic] = true
	}
}

func TestPrepare(t *testing.T) {
	const on, chosen, by = class.AnnProvisionOnNode, class.AnnSelectedNode, class.AnnStorageProvisioner
	for _, row := range []struct {
		what        string
		class       string
		annotations []string
		chosen, by  string
	}{
		{"annotated, delayed", "wait", []string{on, "node-01"}, "node-01", class.HostPathProvisioner},
		{"annotated, the scheduler chose another", "wait", []string{on, "node-01", chosen, "node-02"}, "node-01", class.HostPathProvisioner},
		{"annotated, Immediate", "now", []string{on, "node-01"}, "", class.HostPathProvisioner},
		{"scheduled", "wait", []string{chosen, "node-01"}, "node-01", class.HostPathProvisioner},
		{"scheduled, CSI", "csi", []string{chosen, "node-01"}, "node-01", class.CSIProvisioner},
		{"the controller-manager was here: untouched", "csi", []string{chosen, "node-01", by, class.CSIProvisioner}, "node-01", class.CSIProvisioner},
		{"scheduled for another: untouched", "csi", []string{on, "node-01", chosen, "node-02"}, "node-02", ""},
		{"not scheduled: untouched", "csi", nil, "", ""},
		{"Immediate, CSI: untouched", "csi-now", []string{chosen, "node-01"}, "node-01", ""},
	} {
		in := classtest.Claim("u", row.class, "", row.annotations...)
		before := in.DeepCopy()
		for range 2 { // a claim may pass twice
			out := prepare(in, classtest.Class(row.class), "node-01")
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
