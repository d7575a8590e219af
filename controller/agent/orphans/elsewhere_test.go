package orphans

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A PV that has the name of the volume's PV and names another directory does not hide the volume:
// it is reported, with the place that the PV names. It is not removed, whatever --orphans says.
func TestPVElsewhereHidesNoOrphan(t *testing.T) {
	const name = "pvc-1"
	hostPath := func(path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	for what, row := range map[string]struct {
		source func(pool *volume.Pool) corev1.PersistentVolumeSource
		id     func(pool *volume.Pool) string // the PV's pool, "" for none
		want   string                         // the reason; "" for no orphan
	}{
		"its own":        {func(p *volume.Pool) corev1.PersistentVolumeSource { return hostPath(filepath.Join(p.Path(), name)) }, (*volume.Pool).ID, ""},
		"pool elsewhere": {func(*volume.Pool) corev1.PersistentVolumeSource { return hostPath("/elsewhere/" + name) }, (*volume.Pool).ID, ""},
		"another pool": {func(*volume.Pool) corev1.PersistentVolumeSource { return hostPath("/elsewhere/" + name) }, func(*volume.Pool) string { return "6e0c" },
			"PV pvc-1 names another volume (/elsewhere/pvc-1 in pool 6e0c), and its claim ns/data is gone"},
		"another path": {func(*volume.Pool) corev1.PersistentVolumeSource { return hostPath("/elsewhere/" + name) }, nil,
			"PV pvc-1 names another volume (/elsewhere/pvc-1), and its claim ns/data is gone"},
		"another driver's": {func(*volume.Pool) corev1.PersistentVolumeSource {
			return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "x"}}
		}, nil, "PV pvc-1 names another volume (handle x of driver example.com), and its claim ns/data is gone"},
	} {
		for _, inMemory := range []bool{false, true} {
			for _, aside := range []bool{false, true} {
				says := answers{
					"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
					"persistentvolumes":      corev1.PersistentVolumeList{},
				}
				o, v := orphaned(t, says)
				pool := o.Pools.All()[0]
				pv := corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: "x"},
					Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: row.source(pool)}}
				if row.id != nil {
					pv.Annotations = map[string]string{contract.AnnPool: row.id(pool)}
				}
				says["persistentvolumes/"+name], says["persistentvolumes"] = pv, corev1.PersistentVolumeList{Items: []corev1.PersistentVolume{pv}}
				if inMemory {
					if err := o.PVs.(*pvs.PVs).Informer().GetStore().Add(&pv); err != nil {
						t.Fatal(err)
					}
				}
				if aside {
					setAside(t, pool, v)
				}
				o.check(t.Context())
				want, got := row.want, ""
				if f := o.last[pool].volumes; len(f) > 0 {
					got = f[0].Orphan.Why
				}
				if aside && want != "" {
					want, _, _ = strings.Cut(want, ", and its claim")
					want += ", and a deletion was begun and not finished"
					got, _, _ = strings.Cut(got, ":")
				}
				if got != want {
					t.Errorf("%s, in memory %v, aside %v: %q, want %q", what, inMemory, aside, got, want)
				}
				if r, ok := pool.Cached(name); !ok || r.State != record.Bound {
					t.Errorf("%s, in memory %v, aside %v: it was removed: %+v", what, inMemory, aside, r)
				}
			}
		}
	}
}

// A volume with data whose PV was never saved is reported after some minutes, also if the clock was
// ahead when it was made. Until then its PV may still be saved.
func TestNeverSavedIsReported(t *testing.T) {
	for what, row := range map[string]struct {
		age  time.Duration
		want bool
	}{"new": {saveWithin - time.Minute, false}, "old": {saveWithin, true}} {
		o, _ := orphaned(t, answers{})
		pool := o.Pools.All()[0]
		made := volume.Spec{Name: "pvc-2", Bytes: 1, PV: "pvc-2", Owner: record.Owner{Namespace: "ns", Name: "new", UID: "2"}}
		if _, err := pool.Create(made); err != nil {
			t.Fatal(err)
		}
		o.PVs = ages{o.PVs, row.age}
		o.check(t.Context())
		found := false
		for _, r := range o.last[pool].volumes {
			found = found || r.Name == made.Name && strings.Contains(r.Orphan.Why, "never saved")
		}
		if found != row.want {
			t.Errorf("%s: reported %v", what, found)
		}
	}
}

// ages are PVs whose volumes have one age, whatever the time in their records is.
type ages struct {
	PVs
	age time.Duration
}

func (a ages) Age(*volume.Pool, volume.Volume) time.Duration { return a.age }
