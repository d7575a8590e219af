package contract

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// every returns all dialects.
func every() []Dialect { return append([]Dialect{Own(false)}, others...) }

func claimOf(modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a-b", Name: "c", UID: uid},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes},
	}
}

// A PV that the agent makes in a dialect is one of that dialect on that node, and of no other
// dialect and node.
func TestDialectReadsItsPVs(t *testing.T) {
	at := Place{Node: "node-01", Hostname: "host-a", Pool: "pool-id"}
	for _, d := range every() {
		claim, sc := claimOf(d.Modes...), &storagev1.StorageClass{Provisioner: d.Provisioner}
		if err := d.Check(claim, sc); err != nil {
			t.Errorf("%s: %v", d.Provisioner, err)
		}
		directory := d.Directory(claim, &storagev1.StorageClass{})
		pv := d.PV(pvOf, "/pool/"+directory, claim, sc, at, "Delete")
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		for _, other := range every() {
			path, err := other.Validate(pv, at)
			if is := other.Provisioner == d.Provisioner; (err == nil) != is || is && path != "/pool/"+directory {
				t.Errorf("%s validates the PV of %s: %q, %v", other.Provisioner, d.Provisioner, path, err)
			}
		}
		if err := d.CheckNames(pv, directory); err != nil || !d.Names(pv, at) {
			t.Errorf("%s: names %v, names this node %v", d.Provisioner, err, d.Names(pv, at))
		}
		there := Place{Node: "node-02", Hostname: "host-b"}
		if d.Names(pv, there) {
			t.Errorf("%s: the PV is also on another node", d.Provisioner)
		}
		if len(pv.Spec.AccessModes) != len(d.Modes) || Hostname(pv) != "host-a" || *pv.Spec.HostPath.Type != corev1.HostPathDirectory {
			t.Errorf("%s: %+v", d.Provisioner, pv.Spec)
		}
	}
}

func TestDialectDirectory(t *testing.T) {
	long := strings.Repeat("n", 253)
	for setting, want := range map[string]string{"hostpath": "a-b-c-" + pvOf, "local-path": pvOf + "_a-b_c"} {
		d, err := ParseCompat(setting)
		if err != nil {
			t.Fatal(err)
		}
		if got := d[0].Directory(claimOf(), &storagev1.StorageClass{}); got != want {
			t.Errorf("%s: %q", setting, got)
		}
		claim := claimOf()
		claim.Name = long
		if got := d[0].Directory(claim, &storagev1.StorageClass{}); len(got) != maxDirectory || !strings.Contains(got, pvOf) || !strings.Contains(got, "a-b") {
			t.Errorf("%s: a long name gives %q", setting, got)
		}
	}
	prefix := Own(true)
	if got := prefix.Directory(claimOf(), &storagev1.StorageClass{}); got != "c-"+pvOf {
		t.Errorf("with the naming prefix: %q", got)
	}
}

// Each row has the words of a refusal, "" for none.
func TestDialectCheck(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	edit := func(f func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		claim := claimOf(corev1.ReadWriteOnce)
		f(claim)
		return claim
	}
	for what, row := range map[string]struct {
		setting string
		claim   *corev1.PersistentVolumeClaim
		want    string
	}{
		"many writers":   {"hostpath", claimOf(corev1.ReadWriteMany), ""},
		"many readers":   {"hostpath", claimOf(corev1.ReadWriteOnce, corev1.ReadOnlyMany), ""},
		"one pod":        {"hostpath", claimOf(corev1.ReadWriteOncePod), "access mode ReadWriteOncePod is not supported"},
		"block":          {"hostpath", edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }), "volumeMode Block is not supported"},
		"lines, one pod": {"local-path", claimOf(corev1.ReadWriteOncePod), ""},
		"lines, many":    {"local-path", claimOf(corev1.ReadWriteMany), "use ReadWriteOnce or ReadWriteOncePod"},
		"lines, local":   {"local-path", edit(func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{annVolumeType: "local"} }), ""},
		"lines, other":   {"local-path", edit(func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{annVolumeType: "nfs"} }), "must be local or hostPath"},
	} {
		d, err := ParseCompat(row.setting)
		if err != nil {
			t.Fatal(err)
		}
		err = d[0].Check(row.claim, &storagev1.StorageClass{Provisioner: d[0].Provisioner})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}
	d, _ := ParseCompat("local-path")
	local := edit(func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{annVolumeType: "local"} })
	pv := d[0].PV(pvOf, "/pool/x", local, &storagev1.StorageClass{}, Place{}, "")
	if pv.Spec.Local == nil || pv.Spec.Local.Path != "/pool/x" || pv.Spec.HostPath != nil {
		t.Errorf("volumeType local: %+v", pv.Spec.PersistentVolumeSource)
	}
}

func TestParseCompat(t *testing.T) {
	both, err := ParseCompat(" local-path, hostpath,local-path,")
	if err != nil || len(both) != 2 || both[0].Provisioner != LocalPathProvisioner || both[1].Provisioner != SingleNodeProvisioner {
		t.Errorf("%+v, %v", both, err)
	}
	if _, err := ParseCompat("rancher.io/local-path"); err == nil || !strings.Contains(err.Error(), `"rancher.io/local-path"`) {
		t.Errorf("an unknown setting: %v", err)
	}
}
