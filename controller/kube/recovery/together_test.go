package recovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// ofTenant is a volume of a lost cluster that is made, of a claim of namespace shop with a UID.
func ofTenant(name, uid string, after time.Duration) *Volume {
	return &Volume{Name: name, PVName: name, Namespace: "shop", Claim: name, Cluster: "old", NamespaceUID: uid, LostNamespaceUID: uid,
		ClaimCreated: created.Add(after), Finding: Finding{Verdict: Made}}
}

// A namespace that the lost cluster had twice: which volumes are left, by name.
func TestTogether(t *testing.T) {
	for name, row := range map[string]struct {
		change func(early, late *Volume)
		left   string
	}{
		"two tenants":           {func(_, _ *Volume) {}, "early"},
		"one tenant":            {func(early, _ *Volume) { early.NamespaceUID, early.LostNamespaceUID = "b", "b" }, ""},
		"other namespaces":      {func(early, _ *Volume) { early.Namespace = "other" }, ""},
		"the later is there":    {func(_, late *Volume) { late.NamespaceUID, late.Verdict = "here", There }, "early"},
		"the earlier was meant": {func(early, _ *Volume) { early.NamespaceUID, early.Verdict = "here", There }, "late"},
		"both were meant": {func(early, late *Volume) {
			early.NamespaceUID, late.NamespaceUID = "here", "here"
			early.Verdict = There
		}, ""},
		"its PV is Released":       {func(early, _ *Volume) { early.Verdict, early.Released = Left, true }, "early"},
		"left for another reason":  {func(early, _ *Volume) { early.Verdict = Left }, ""},
		"no UID, and one tenant":   {func(early, _ *Volume) { early.NamespaceUID, early.LostNamespaceUID = "", "" }, ""},
		"of this cluster":          {func(early, _ *Volume) { early.LostNamespaceUID = "" }, ""},
		"the clock does not count": {func(early, late *Volume) { early.Created = late.ClaimCreated.AddDate(1, 0, 0) }, "early"},
	} {
		for _, lateFirst := range []bool{false, true} {
			early, late := ofTenant("early", "a", 0), ofTenant("late", "b", time.Hour)
			row.change(early, late)
			all := []OnNode{{"n1", early}, {"n2", late}}
			if lateFirst {
				slices.Reverse(all)
			}
			Together(all, Options{FromCluster: "old"})
			var left []string
			for _, v := range all {
				if strings.Contains(v.Why, "-n shop --to-namespace=shop") && v.Verdict == Left {
					left = append(left, v.Name)
				}
			}
			if got := strings.Join(left, " "); got != row.left {
				t.Errorf("%s: left %q, want %q", name, got, row.left)
			}
		}
	}
	early, late, unknown := ofTenant("early", "a", 0), ofTenant("late", "b", time.Hour), ofTenant("unknown", "", 2*time.Hour)
	all := []OnNode{{"n1", early}, {"n2", late}, {"n2", unknown}}
	if Together(all, Options{FromCluster: "old"}); unknown.Verdict != Left || late.Verdict != Made {
		t.Errorf("a record without the UID: %+v, %+v", unknown.Finding, late.Finding)
	}
	early, late = ofTenant("early", "a", 0), ofTenant("late", "b", time.Hour)
	if Together([]OnNode{{"n1", early}, {"n2", late}}, Options{FromCluster: "old", ToNamespace: "shop"}); early.Verdict != Made {
		t.Errorf("a namespace that a person names: %+v", early.Finding)
	}
}

// The UID of the namespace in the lost cluster is in the record, and on the PV once the volume is recovered.
func TestLostNamespace(t *testing.T) {
	v, o := Volume{Name: "pvc-1", PoolUUID: "pool", Namespace: "shop", Cluster: "old", NamespaceUID: "a"}, Options{FromCluster: "old"}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.AnnPool: "pool"}}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-1"}
	NoteNamespace(pv, v, Options{FromCluster: "old", ToNamespace: "other"})
	NoteNamespace(pv, v, Options{})
	if got := pv.Annotations[contract.AnnLostNamespace]; got != "" {
		t.Errorf("noted %q of another namespace, or of no lost cluster", got)
	}
	NoteNamespace(pv, v, o)
	there := v
	there.Cluster, there.NamespaceUID = "here", "new"
	for name, row := range map[string]struct {
		v    Volume
		pv   *corev1.PersistentVolume
		o    Options
		here string
		want string
	}{
		"of the lost":            {v, nil, o, "here", "a"},
		"recovered":              {there, pv, o, "here", "a"},
		"recovered from another": {there, pv, Options{FromCluster: "third"}, "here", ""},
		"without a PV":           {there, nil, o, "here", ""},
		"no cluster was lost":    {v, pv, Options{}, "here", ""},
		"etcd was restored":      {v, pv, o, "old", ""},
	} {
		if got := LostNamespace(row.v, Facts{Here: row.here, PV: row.pv}, row.o); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	pv.Spec.CSI.VolumeHandle = "pvc-2"
	if got := LostNamespace(there, Facts{Here: "here", PV: pv}, o); got != "" {
		t.Errorf("by the PV of another volume: %q", got)
	}
}
