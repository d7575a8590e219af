package contract

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	uid  = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	pvOf = "pvc-" + uid
)

// otherPV is what the other provisioner makes of the claim a-b/c on node-01, whose hostname label
// is host-a.
func otherPV(provisioner string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pvOf, Annotations: map[string]string{AnnProvisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "a-b", Name: "c", UID: uid},
		},
	}
	if provisioner == "hostpath" {
		pv.Annotations[AnnIdentity] = "node-01"
		pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/pool/a-b-c-" + pvOf}
	} else {
		pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/pool/" + pvOf + "_a-b_c"}
		pv.Spec.NodeAffinity = affinity(corev1.LabelHostname, "host-a")
	}
	return pv
}

func TestParseProvisioners(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "hostpath": "hostpath", " hostpath , rancher.io/local-path,": "hostpath rancher.io/local-path",
	} {
		named, err := ParseProvisioners(text)
		var got []string
		for _, o := range named {
			got = append(got, o.Provisioner)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ParseProvisioners("hostpath,local-path"); err == nil || !strings.Contains(err.Error(), `"local-path"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

// Each row changes one thing of a PV that may be taken over. What it says of a path is a whole that
// is compared: the namespace a and the claim b-c make the same name as the namespace a-b and the
// claim c.
func TestOtherPath(t *testing.T) {
	type pv = corev1.PersistentVolume
	path := func(p string) func(*pv) { return func(pv *pv) { pv.Spec.HostPath.Path = p } }
	for name, row := range map[string]struct {
		provisioner string
		edit        func(*pv)
		want        string // in the error, "" for none
	}{
		"dashes, as made":   {"hostpath", nil, ""},
		"dashes, ambiguous": {"hostpath", func(pv *pv) { pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name = "a", "b-c" }, ""},
		"another namespace": {"hostpath", func(pv *pv) { pv.Spec.ClaimRef.Namespace = "b" }, "b-c-pvc-"},
		"another claim":     {"hostpath", func(pv *pv) { pv.Spec.ClaimRef.Name = "d" }, "a-b-d-pvc-"},
		"another claim UID": {"hostpath", func(pv *pv) { pv.Spec.ClaimRef.UID = "other" }, "pvc-<UID of its claim>"},
		"no claim":          {"hostpath", func(pv *pv) { pv.Spec.ClaimRef = nil }, "pvc-<UID of its claim>"},
		"another name":      {"hostpath", func(pv *pv) { pv.Name = "db" }, "pvc-<UID of its claim>"},
		"prefix":            {"hostpath", path("/pool/x-a-b-c-" + pvOf), "want"},
		"suffix":            {"hostpath", path("/pool/a-b-c-" + pvOf + "-x"), "want"},
		"plain":             {"hostpath", path("/pool/" + pvOf), "want"},
		"the pool":          {"hostpath", path("/pool"), "want"},
		"below it":          {"hostpath", path("/pool/a-b-c-" + pvOf + "/data"), "want"},
		"no path":           {"hostpath", func(pv *pv) { pv.Spec.HostPath = nil }, "no hostPath"},
		"lines, as made":    {"rancher.io/local-path", nil, ""},
		"lines, local": {"rancher.io/local-path", func(pv *pv) {
			pv.Spec.Local, pv.Spec.HostPath = &corev1.LocalVolumeSource{Path: pv.Spec.HostPath.Path}, nil
		}, ""},
		"lines, before v0.0.13": {"rancher.io/local-path", path("/pool/" + pvOf), ""},
		"lines, the other's":    {"rancher.io/local-path", path("/pool/a-b-c-" + pvOf), "want"},
		"lines, another claim":  {"rancher.io/local-path", func(pv *pv) { pv.Spec.ClaimRef.Name = "d" }, "_a-b_d"},
		"lines, claim in path":  {"rancher.io/local-path", path("/pool/a-b/" + pvOf + "_a-b_c/.."), "want"},
	} {
		pv := otherPV(row.provisioner)
		if row.edit != nil {
			row.edit(pv)
		}
		got, err := MadeBy(pv, others).Validate(pv, Place{Node: "node-01", Hostname: "host-a"})
		if err == nil {
			err = MadeBy(pv, others).CheckNames(pv, filepath.Base(got))
		}
		switch {
		case row.want == "" && (err != nil || got != DirectoryOf(pv)):
			t.Errorf("%s: %q, %v", name, got, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func TestOtherNames(t *testing.T) {
	type pv = corev1.PersistentVolume
	identity := func(v string) func(*pv) { return func(pv *pv) { pv.Annotations[AnnIdentity] = v } }
	pinned := func(v string) func(*pv) {
		return func(pv *pv) { pv.Spec.NodeAffinity = affinity(corev1.LabelHostname, v) }
	}
	for name, row := range map[string]struct {
		provisioner string
		edit        func(*pv)
		want        bool
	}{
		"as made":               {"hostpath", identity("node-01"), true},
		"another node":          {"hostpath", identity("node-02"), false},
		"begins like it":        {"hostpath", identity("node-011"), false},
		"no node":               {"hostpath", func(pv *pv) { delete(pv.Annotations, AnnIdentity) }, false},
		"pinned later":          {"hostpath", pinned("host-a"), true},
		"pinned elsewhere":      {"hostpath", pinned("host-b"), true}, // and validated later
		"affinity":              {"rancher.io/local-path", pinned("host-a"), true},
		"affinity to the Node":  {"rancher.io/local-path", pinned("node-01"), true},
		"affinity to another":   {"rancher.io/local-path", pinned("host-b"), false},
		"no affinity":           {"rancher.io/local-path", func(pv *pv) { pv.Spec.NodeAffinity = nil }, false},
		"affinity by other key": {"rancher.io/local-path", func(pv *pv) { pv.Spec.NodeAffinity = affinity("zone", "host-a") }, false},
		"affinity to two": {"rancher.io/local-path", func(pv *pv) {
			values := &pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
			*values = append(*values, "host-b")
		}, false},
	} {
		pv := otherPV(row.provisioner)
		row.edit(pv)
		if got := MadeBy(pv, others).Names(pv, Place{Node: "node-01", Hostname: "host-a"}); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMadeBy(t *testing.T) {
	one, err := ParseProvisioners("hostpath")
	if err != nil {
		t.Fatal(err)
	}
	csi := otherPV("hostpath")
	csi.Spec.HostPath, csi.Spec.CSI = nil, &corev1.CSIPersistentVolumeSource{Driver: "x"}
	for name, row := range map[string]struct {
		pv   *corev1.PersistentVolume
		want bool
	}{
		"named": {otherPV("hostpath"), true}, "not named": {otherPV("rancher.io/local-path"), false},
		"ours": {otherPV(HostPathProvisioner), false}, "no provisioner": {otherPV(""), false}, "CSI": {csi, false},
	} {
		if got := MadeBy(row.pv, one) != nil; got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The PV that another provisioner gets back is the one it created, without a label or annotation of
// this one.
func TestReturnedToOther(t *testing.T) {
	for _, o := range others {
		was := otherPV(o.Provisioner)
		was.UID = "first"
		at := Place{Node: "node-01", Hostname: "renamed", Pool: "pool-id"}
		csi := MigratedCSIPV(was, CSIProvisioner, "handle", "local", *was.Spec.Capacity.Storage(), at)
		csi.UID = "second"
		pv := ReturnedHostPathPV(was, csi, "/moved/x", at, true)
		if pv.Spec.CSI != nil || DirectoryOf(pv) != "/moved/x" || was.Spec.NodeAffinity != nil && Hostname(pv) != "renamed" || (pv.Spec.NodeAffinity == nil) != (was.Spec.NodeAffinity == nil) {
			t.Errorf("%s: %+v", o.Provisioner, pv.Spec)
		}
		was.Annotations[AnnReplaces] = "second"
		if len(pv.Labels) != 0 || len(pv.Annotations) != len(was.Annotations) {
			t.Errorf("%s: labels %v, annotations %v, want %v", o.Provisioner, pv.Labels, pv.Annotations, was.Annotations)
		}
	}
}
