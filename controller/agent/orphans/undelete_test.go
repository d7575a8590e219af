package orphans

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gone are the answers of an API server that has no PV and no claim.
func gone() answers {
	return answers{
		"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "here"}},
		"persistentvolumes":      corev1.PersistentVolumeList{},
	}
}

// An orphan that was removed and is kept comes back, and is not removed again: its policy is Retain, and
// the note goes with the deletion. The grace period is over at once.
func TestUndeletedStays(t *testing.T) {
	o, v := orphaned(t, gone())
	pool := o.Pools.All()[0]
	if err := os.WriteFile(filepath.Join(v.Path, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.NoteOrphan(v.Name, "its PV is gone", 0); err != nil {
		t.Fatal(err)
	}
	o.check(t.Context())
	kept := pool.Kept()
	if len(kept) != 1 {
		t.Fatalf("kept are %+v", kept)
	}
	for range 2 {
		if _, err := pool.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.check(t.Context()) // of nothing
	}
	if _, err := pool.Undelete(kept[0].ID); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		o.check(t.Context())
		if _, err := pool.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := pool.Get(v.Name); err != nil || now.Missing || now.ReclaimPolicy != "Retain" || now.Orphan.Why == "" {
		t.Errorf("%+v, %v", now, err)
	}
}

// A volume whose deletion was begun, and that was to be kept, is found where it is.
func TestUnfinishedKeptIsReported(t *testing.T) {
	o, v := orphaned(t, gone())
	o.Delete = false
	pool := o.Pools.All()[0]
	if err := os.Mkdir(filepath.Join(pool.Path(), ".hostpath-provisioner/kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	setAsideIn(t, pool, v, "kept")
	o.check(t.Context())
	if f := o.last[pool]; len(f.volumes) != 1 || !strings.Contains(f.volumes[0].Orphan.Why, ".hostpath-provisioner/kept/"+v.Trash) {
		t.Errorf("found %+v", f)
	}
}
