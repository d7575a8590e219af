package torture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

func claimOf(name string, size int64, phase corev1.PersistentVolumeClaimPhase) corev1.PersistentVolumeClaim {
	class := "class"
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	c.Spec.StorageClassName = &class
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	if c.Status.Phase = phase; phase == corev1.ClaimBound {
		c.Spec.VolumeName = "pvc-" + name
		c.Status.Capacity = c.Spec.Resources.Requests.DeepCopy()
	}
	return c
}

func pvOf(claim string, size int64, policy corev1.PersistentVolumeReclaimPolicy, node, pool string) SeenPV {
	pv := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + claim}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(claim)}
	pv.Spec.PersistentVolumeReclaimPolicy = policy
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	return SeenPV{pv, node, pool + "/" + pv.Name}
}

func volumeOf(claim string, size int64) harness.ReportVolume {
	v := harness.ReportVolume{Name: "pvc-" + claim, State: "bound", PV: "pvc-" + claim, Bytes: size, Quota: size}
	v.Owner.UID = claim
	return v
}

// healthy is a bound claim and a kept PV on node a, and a claim too large for either disk.
func healthy() Sight {
	const size = 10 * mebibyte
	a := SeenPool{Path: "/a", Directories: []string{"pvc-used", "pvc-kept"}, Allocated: 2 * size, Available: 100 * mebibyte}
	a.Volumes = []harness.ReportVolume{volumeOf("used", size), volumeOf("kept", size)}
	return Sight{
		Claims: []corev1.PersistentVolumeClaim{claimOf("used", size, corev1.ClaimBound), claimOf("large", 1<<40, corev1.ClaimPending)},
		PVs: []SeenPV{pvOf("used", size, corev1.PersistentVolumeReclaimDelete, "a", "/a"),
			pvOf("kept", size, corev1.PersistentVolumeReclaimRetain, "a", "/a")},
		Warned: map[types.UID]string{"large": "too large"},
		Disks: []SeenDisk{
			{Node: "a", Filesystem: "btrfs", Total: 300 * mebibyte, Pools: []SeenPool{a}, Limits: []string{"1_1", "1_2"}},
			{Node: "b", Filesystem: "xfs", Total: 300 * mebibyte, Pools: []SeenPool{{Path: "/b", Available: 100 * mebibyte}}},
		},
		Remembered: []Memory{
			{Name: "used", UID: "used", Policy: corev1.PersistentVolumeReclaimDelete, Directory: "/a/pvc-used", Kept: true},
			{Name: "kept", UID: "kept", Policy: corev1.PersistentVolumeReclaimRetain, Directory: "/a/pvc-kept", Deleted: true, Kept: true},
			{Name: "large", UID: "large"},
			{Name: "freed", UID: "freed", Policy: corev1.PersistentVolumeReclaimDelete, Directory: "/b/pvc-freed", Deleted: true},
		},
	}
}

func TestJudge(t *testing.T) {
	const size = 10 * mebibyte
	pool := func(s *Sight) *SeenPool { return &s.Disks[0].Pools[0] }
	other := func(s *Sight) *SeenPool { return &s.Disks[1].Pools[0] }
	for _, test := range []struct {
		name, words string
		kind        Kind
		spoil       func(*Sight)
	}{
		{"data damaged", "3 bytes", Lost, func(s *Sight) { s.Remembered[0].Damage = []string{"file x: 3 bytes"} }},
		{"claim gone", "was not deleted", Lost, func(s *Sight) { s.Claims = s.Claims[:1] }},
		{"PV of a claim gone", "has no PV", Lost, func(s *Sight) { s.PVs = s.PVs[1:] }},
		{"PV of an undeleted volume gone", "policy Retain", Lost, func(s *Sight) { s.Remembered[1].PV = "pvc-former" }},
		{"kept PV gone", "policy Retain", Lost, func(s *Sight) { s.PVs = s.PVs[:1] }},
		{"directory gone", "is not there", Lost, func(s *Sight) { pool(s).Directories = pool(s).Directories[1:] }},
		{"record gone", "has no record", Lost, func(s *Sight) { pool(s).Volumes = pool(s).Volumes[1:] }},
		{"record not bound", "its record is", Lost, func(s *Sight) { pool(s).Volumes[0].State = "ready" }},
		{"record damaged", "damaged", Lost, func(s *Sight) { pool(s).Damaged = []string{"x"} }},
		{"less than the PV says", "allocates", Lost, func(s *Sight) { pool(s).Volumes[0].Bytes-- }},
		{"PV in no pool", "in no pool", Lost, func(s *Sight) { s.PVs[0].Directory = "/c/pvc-used" }},
		{"PV stays", "it stays", Leaked, func(s *Sight) {
			s.PVs[1].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		}},
		{"claim stays", "stays", Leaked, func(s *Sight) { s.Remembered[0].Deleted = true }},
		{"directory of nobody", "no record and no PV", Leaked, func(s *Sight) { other(s).Directories = []string{"pvc-freed"} }},
		{"record of nobody", "no claim and no PV", Leaked, func(s *Sight) {
			other(s).Volumes, other(s).Allocated = []harness.ReportVolume{volumeOf("freed", size)}, size
		}},
		{"policy of a migration", "annotation of a migration", Leaked, func(s *Sight) {
			s.PVs[1].Annotations = map[string]string{annPolicy: "Delete"}
		}},
		{"journal is open", `at step "cutover" and does not end: why`, Leaked, func(s *Sight) {
			pool(s).Volumes[0].Migration = &struct{ Step, To, Stopped string }{"cutover", "csi", "why"}
		}},
		{"staging", "staging", Leaked, func(s *Sight) { other(s).Staging = []string{"x"} }},
		{"trash", "trash", Leaked, func(s *Sight) { other(s).Trash = []string{"x"} }},
		{"limit of nobody", "1_3", Leaked, func(s *Sight) { leave(s, "1_3") }},
		{"limit beside that of a deleted volume", "1_4", Leaked, func(s *Sight) { keep(s, "1_3"); leave(s, "1_4") }},
		{"allocation without a record", "holds", Leaked, func(s *Sight) { pool(s).Allocated++ }},
		{"silent", "no event has the reason", Leaked, func(s *Sight) { delete(s.Warned, "large") }},
		{"Pending with room", "is Pending", Leaked, func(s *Sight) { s.Claims[1] = claimOf("large", size, corev1.ClaimPending) }},
		{"silent growth", "its status has no reason", Leaked, func(s *Sight) { grow(&s.Claims[0], 1<<40) }},
		{"no growth with room", "does not grow", Leaked, func(s *Sight) {
			grow(&s.Claims[0], 2*size)
			s.Claims[0].Status.Conditions = []corev1.PersistentVolumeClaimCondition{
				{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue}}
		}},
		{"two PVs", "has the PVs", Double, func(s *Sight) {
			second := pvOf("used", size, corev1.PersistentVolumeReclaimDelete, "b", "/b")
			second.Name = "pvc-second"
			s.PVs = append(s.PVs, second)
		}},
		{"two volumes", "has the volumes", Double, func(s *Sight) {
			other(s).Volumes, other(s).Allocated = []harness.ReportVolume{volumeOf("used", size)}, size
		}},
		{"two directories", "and in", Double, func(s *Sight) { other(s).Directories = []string{"pvc-used"} }},
		{"one directory of two", "is named by", Double, func(s *Sight) { s.PVs[1].Directory = s.PVs[0].Directory }},
		{"too much allocated", "of a disk", Double, func(s *Sight) {
			pool(s).Volumes[0].Bytes, pool(s).Allocated = 1<<30, 1<<30+size
		}},
		{"allocation forgotten", "allocated twice", Double, func(s *Sight) { pool(s).Allocated-- }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := healthy()
			test.spoil(&s)
			found := Judge(s)
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == test.kind && strings.Contains(f.What, test.words) }) {
				t.Errorf("found %v, want %s with %q", found, test.kind, test.words)
			}
		})
	}
	s, copied := healthy(), healthy()
	keep(&s, "1_3")
	copied.Disks[0].Limits = append(copied.Disks[0].Limits, "1_3") // of an original that is gone
	for _, well := range []Sight{healthy(), s, copied} {
		if found := Judge(well); len(found) > 0 {
			t.Errorf("nothing is wrong, and found were %v", found)
		}
	}
}

// keep has a pool keep one deleted volume, and the kernel these limits, too.
func keep(s *Sight, limits ...string) {
	d := &s.Disks[0]
	d.Pools[0].Kept, d.Limits = []string{"id", "id.json"}, append(d.Limits, limits...)
}

// leave has the kernel keep a limit that counts nothing.
func leave(s *Sight, limit string) {
	d := &s.Disks[0]
	d.Limits, d.Unused = append(d.Limits, limit), append(d.Unused, limit)
}

func grow(c *corev1.PersistentVolumeClaim, size int64) {
	c.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(size, resource.BinarySI)
}

func TestRest(t *testing.T) {
	if found := Rest(healthy()); len(found) != 6 { // two claims, two PVs, a pool, limits
		t.Errorf("found %v", found)
	}
	kept := Sight{Disks: []SeenDisk{{Pools: []SeenPool{{Available: 1, Kept: []string{"id", "id.json"}}}}}}
	if found := Rest(kept); len(found) != 1 {
		t.Errorf("found %v where a deleted volume is kept", found)
	}
	empty := Sight{Disks: []SeenDisk{{Pools: []SeenPool{{Available: 1}}}}}
	if found := Rest(empty); len(found) > 0 {
		t.Errorf("found %v where nothing is left", found)
	}
}

// What a tenant wrote is judged by its content.
func TestDamaged(t *testing.T) {
	cl := &claim{name: "c", directory: t.TempDir()}
	for _, data := range []string{"one", "two"} {
		name, err := writeFile(cl.directory, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		cl.files = append(cl.files, name)
	}
	if said := damaged(cl); len(said) > 0 {
		t.Errorf("said %v of what is whole", said)
	}
	if err := removeFile(cl.directory, cl.files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cl.directory, cl.files[1]), []byte("too"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := damaged(cl); len(said) != 2 || !strings.Contains(said[0], "no such file") || !strings.Contains(said[1], "checksum") {
		t.Errorf("said %v", said)
	}
	cl.directory += "-gone"
	if said := damaged(cl); len(said) != 1 || !strings.Contains(said[0], "its directory") {
		t.Errorf("said %v", said)
	}
}
