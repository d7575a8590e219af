package pvs

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// The PV of a volume whose PV is gone is one that the agent makes, and accepts, for it: of the kind
// that the volume had last.
func TestRestoredPV(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	kept := classtest.Class("wait")
	kept.Name, kept.ReclaimPolicy = "a-kept", &retain
	var classes []storagev1.StorageClass
	for _, name := range []string{"wait", "csi", "csi-fast", "theirs"} {
		classes = append(classes, *classtest.Class(name))
	}
	classes = append(classes, *kept)
	for what, row := range map[string]struct {
		pool, policy, class string // class of an existing claim
		migrated            *record.Migration
		want                string // class, "csi" or "hostpath"
	}{
		"hostPath pool":            {"legacy", "Delete", "", nil, "wait hostpath"},
		"policy Retain":            {"legacy", "Retain", "", nil, "a-kept hostpath"},
		"another pool":             {"fast", "Delete", "", nil, "csi-fast csi"},
		"migrated":                 {"legacy", "Delete", "", &record.Migration{Step: record.MigrationDone, To: "csi"}, "csi csi"},
		"and back":                 {"legacy", "Delete", "", &record.Migration{Step: record.MigrationDone, To: "hostpath"}, "wait hostpath"},
		"a claim's class":          {"legacy", "Delete", "csi", nil, "csi csi"},
		"a class that is gone too": {"fast", "Delete", "gone", nil, "gone csi"},
	} {
		t.Run(what, func(t *testing.T) {
			p := newPVs(t)
			pool := p.Pools.Named(row.pool)
			name := "pvc-" + testUID
			made, err := pool.Create(volume.Spec{Name: name, Bytes: 1 << 20, PV: name, ReclaimPolicy: row.policy,
				Owner: record.Owner{Namespace: "default", Name: "data", UID: testUID}})
			if err != nil {
				t.Fatal(err)
			}
			made.Migration = row.migrated
			claim := classtest.Claim("another", row.class, name)
			pv, err := p.Restored(pool, made, claim, classes)
			if err != nil {
				t.Fatal(err)
			}
			kind := "hostpath"
			if pv.Spec.CSI != nil {
				kind = "csi"
			}
			if got := pv.Spec.StorageClassName + " " + kind; got != row.want || contract.Of(claim) != pv.Spec.StorageClassName {
				t.Errorf("%s, claim %s; want %s", got, contract.Of(claim), row.want)
			}
			if pv.Name != name || pv.Spec.PersistentVolumeReclaimPolicy != retain || pv.Annotations[contract.AnnPool] != pool.ID() || pv.Labels[contract.LabelNode] == "" ||
				pv.Annotations[contract.AnnProvisionedBy] == "" {
				t.Errorf("PV %+v", pv)
			}
			in, found, err := p.volumeOf(pv)
			if err != nil || in != pool || found.Name != name {
				t.Errorf("the agent finds %s in %v: %v", found.Name, in, err)
			}
		})
	}
}

// A volume that no PV of this agent can name, or whose record names none, is refused.
func TestRestoredPVIsRefused(t *testing.T) {
	p := newPVs(t)
	pool := p.Pools.Named("legacy")
	v := volume.Volume{Record: record.Record{Name: "pvc-1", PV: "pvc-1", State: record.Bound}, Path: filepath.Join(pool.Path(), "pvc-1")}
	for what, row := range map[string]struct {
		edit func(*volume.Volume)
		want string
	}{
		"no PV":         {func(v *volume.Volume) { v.PV = "" }, "names no PV"},
		"being created": {func(v *volume.Volume) { v.State = record.Creating }, "creating"},
		"inline":        {func(v *volume.Volume) { v.Ephemeral = true }, "inline"},
	} {
		changed := v
		row.edit(&changed)
		if _, err := p.Restored(pool, changed, classtest.Claim("c", "", ""), nil); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}
}

// A PV that is made again has no more than the volume had: a request that nobody served is none. Of an adopted
// volume of unknown size it has at most the size of the disk.
func TestRestoredSize(t *testing.T) {
	for what, row := range map[string]struct {
		bytes   int64
		request string
		want    string // "" is the disk's size
	}{
		"as it was":                      {1 << 30, "1Gi", "1Gi"},
		"a growth that was not served":   {1 << 30, "1Pi", "1Gi"},
		"of unknown size":                {0, "2Gi", "2Gi"},
		"of unknown size, and not grown": {0, "1Pi", ""},
	} {
		p := newPVs(t)
		pool, name := p.Pools.Named("legacy"), "pvc-"+testUID
		made, err := pool.Create(volume.Spec{Name: name, Bytes: 1 << 20, PV: name, ReclaimPolicy: "Delete",
			Owner: record.Owner{Namespace: "default", Name: "data", UID: testUID}})
		if err != nil {
			t.Fatal(err)
		}
		made.Bytes = row.bytes
		claim := classtest.Claim("another", "wait", name)
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(row.request)}
		pv, err := p.Restored(pool, made, claim, []storagev1.StorageClass{*classtest.Class("wait")})
		if err != nil {
			t.Fatal(err)
		}
		space, err := pool.Space()
		if err != nil {
			t.Fatal(err)
		}
		want := contract.WholeDisk(space.Total, 0)
		if row.want != "" {
			want = resource.MustParse(row.want)
		}
		if has := pv.Spec.Capacity.Storage(); has.Cmp(want) != 0 || claim.Spec.Resources.Requests.Storage().Cmp(want) != 0 {
			t.Errorf("%s: the PV has %s, the claim requests %s; want %s", what, has, claim.Spec.Resources.Requests.Storage(), &want)
		}
	}
}
