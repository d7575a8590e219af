package orphans

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Everything that a record must say before its volume may go, spoilt one at a
// time.
func TestRemovable(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	const grace = 24 * time.Hour
	good := record.Record{
		Name: "pvc-1", State: record.Bound, PV: "pvc-1", ReclaimPolicy: "Delete", Cluster: "here",
		Owner:  record.Owner{Namespace: "ns", Name: "data", UID: "1"},
		Orphan: record.Orphan{Since: now.Add(-grace), Why: "PV and claim are gone", WatchedSeconds: int64(grace / time.Second)},
	}
	if why := removable(good, "here", grace, now); why != "" {
		t.Fatalf("the good one stays: %s", why)
	}
	if why := removable(good, "elsewhere", grace, now); !strings.Contains(why, `"elsewhere"`) {
		t.Errorf("another cluster: %q", why)
	}
	for what, row := range map[string]struct {
		spoil func(*record.Record)
		words string
	}{
		"no note":             {func(r *record.Record) { r.Orphan = record.Orphan{} }, "not an orphan"},
		"ready":               {func(r *record.Record) { r.State = record.Ready }, "never seen"},
		"a pod's own":         {func(r *record.Record) { r.Ephemeral = true }, "inline volume"},
		"its PV is replaced":  {func(r *record.Record) { r.Migration = &record.Migration{Step: record.MigrationCutover} }, "being replaced"},
		"adopted":             {func(r *record.Record) { r.Adopted = true }, "was adopted"},
		"retained":            {func(r *record.Record) { r.ReclaimPolicy = "Retain" }, `"Retain"`},
		"of unknown policy":   {func(r *record.Record) { r.ReclaimPolicy = "" }, "reclaim policy"},
		"of no cluster":       {func(r *record.Record) { r.Cluster = "" }, "cluster"},
		"without claim":       {func(r *record.Record) { r.Owner = record.Owner{} }, "claim is not known"},
		"claim's UID alone":   {func(r *record.Record) { r.Owner = record.Owner{UID: "1"} }, "claim is not known"},
		"claim without UID":   {func(r *record.Record) { r.Owner.UID = "" }, "claim is not known"},
		"a second too young":  {func(r *record.Record) { r.Orphan.Since = now.Add(time.Second - grace) }, "24h"},
		"watched too shortly": {func(r *record.Record) { r.Orphan.WatchedSeconds-- }, "23h59m59s"},
		"noted in the future": {func(r *record.Record) { r.Orphan.Since = now.Add(time.Hour) }, "24h"},
	} {
		r := good
		row.spoil(&r)
		if why := removable(r, "here", grace, now); !strings.Contains(why, row.words) {
			t.Errorf("%s: %q, want words like %q", what, why, row.words)
		}
	}
	unknown := good
	unknown.Cluster = ""
	if removable(unknown, "", grace, now) == "" {
		t.Error("two unknown clusters pass for one")
	}
}

// A volume whose PV went while no agent looked has to stay, if there is something to keep.
func TestUnseen(t *testing.T) {
	noted := record.Record{Name: "pvc-1", State: record.Bound, Orphan: record.Orphan{Why: "gone", Unseen: true}}
	aside, seen := noted, noted
	aside.Aside, aside.Trash, seen.Orphan.Unseen = true, "t", false
	for what, row := range map[string]struct {
		v     volume.Volume
		keeps bool
	}{
		"with its directory": {volume.Volume{Record: noted}, true},
		"without directory":  {volume.Volume{Record: noted, Missing: true}, false},
		"directory in trash": {volume.Volume{Record: aside, Missing: true}, true},
		"seen":               {volume.Volume{Record: seen}, false},
		"seen, and in trash": {volume.Volume{Record: seen, Missing: true}, false},
	} {
		if why := unseen(row.v); (why != "") != row.keeps {
			t.Errorf("%s: %q", what, why)
		}
	}
}

func TestOrphansInWords(t *testing.T) {
	claimed, own := record.Record{Name: "pvc-1"}, record.Record{Name: "csi-1", Ephemeral: true}
	for want, row := range map[string]struct {
		found  findings
		delete bool
	}{
		"1 volume without a PV, which is kept":                {findings{volumes: []record.Record{claimed}}, false},
		"1 volume without a PV":                               {findings{volumes: []record.Record{claimed}}, true},
		"2 inline volumes without a pod, deleted when unused": {findings{volumes: []record.Record{own, own}}, false},
		"1 directory without record and PV, which is kept":    {findings{directories: []string{"pvc-2"}}, false},
		"1 volume without a PV and 1 directory without record and PV; 1 inline volume without a pod, deleted when unused": {
			findings{volumes: []record.Record{own, claimed}, directories: []string{"pvc-2"}}, true},
	} {
		o := &Checker{Config: Config{Delete: row.delete}}
		if got := o.counts(row.found); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNamesDirectory(t *testing.T) {
	const name = "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	hostPath := func(path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	for what, row := range map[string]struct {
		source corev1.PersistentVolumeSource
		want   bool
	}{
		"hostPath":           {hostPath("/pool/" + name), true},
		"hostPath, unclean":  {hostPath("/pool/../link//" + name + "/"), true},
		"hostPath below it":  {hostPath("/pool/" + name + "/disk"), true},
		"another's hostPath": {hostPath("/pool/data-" + name), false},
		"local":              {corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/pool/" + name}}, true},
		"CSI of any driver":  {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: name}}, true},
		"another's CSI":      {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "pvc-2"}}, false},
		"NFS":                {corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Path: "/pool/" + name}}, false},
	} {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: row.source}}
		if got := namesDirectory(pv, name); got != row.want {
			t.Errorf("%s: %v, want %v", what, got, row.want)
		}
	}
}
