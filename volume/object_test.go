package volume_test

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
)

// The UID of the PV that may delete a volume is taken once, with the cluster. Only a PV that is
// Bound replaces them.
func TestBindRecordsThePVObject(t *testing.T) {
	p := newPool(t)
	s := spec("v", 1)
	s.Cluster = "first"
	_, err := p.Create(s)
	ok(t, err)
	for _, row := range []struct {
		what         string
		uid, cluster string
		bound        bool
		want         [2]string
	}{
		{"not the volume's", "", "second", false, [2]string{"", "first"}},
		{"the first", "a", "first", false, [2]string{"a", "first"}},
		{"another", "b", "second", false, [2]string{"a", "first"}},
		{"the same, the cluster is unknown", "a", "", false, [2]string{"a", "first"}},
		{"another, Bound", "b", "second", true, [2]string{"b", "second"}},
		{"Bound, the cluster is unknown", "c", "", true, [2]string{"c", "second"}},
	} {
		b := volume.Binding{PV: s.PV, Owner: s.Owner, UID: row.uid, Cluster: row.cluster, Bound: row.bound}
		_, err := p.Bind("v", b)
		ok(t, err)
		if r, _ := p.Cached("v"); [2]string{r.PVUID, r.Cluster} != row.want {
			t.Errorf("%s: recorded %q in cluster %q, want %q", row.what, r.PVUID, r.Cluster, row.want)
		}
	}
}
