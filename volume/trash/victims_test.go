package trash

import (
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestVictims(t *testing.T) {
	kept := func(id, namespace string, bytes int64) Kept {
		return Kept{ID: id, Bytes: bytes, Record: record.Record{Owner: record.Owner{Namespace: namespace}}}
	}
	// The oldest first. "much" has 50, "some" 30, "little" 5, and "unknown" none that are sure.
	all := []Kept{
		kept("l1", "little", 5), kept("s1", "some", 10), kept("u1", "unknown", 0), kept("m1", "much", 20),
		kept("m2", "much", 20), kept("s2", "some", 20), kept("m3", "much", 10), kept("m4", "much", 0),
	}
	for _, row := range []struct {
		need   int64
		inodes bool
		want   []string
	}{
		{0, false, nil},
		{-1, false, nil},
		{1, false, []string{"m1"}},
		{20, false, []string{"m1"}},
		{21, false, []string{"m1", "m2"}}, // 30 each then: by name
		{41, false, []string{"m1", "m2", "s1"}},
		{51, false, []string{"m1", "m2", "s1", "s2"}},
		{80, false, []string{"m1", "m2", "s1", "s2", "m3"}},
		{1000, false, []string{"m1", "m2", "s1", "s2", "m3", "l1"}}, // in vain, and no more
		{0, true, []string{"m1"}},
	} {
		var got []string
		for _, k := range Victims(all, row.need, row.inodes) {
			got = append(got, k.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%d bytes, inodes %v: %q, want %q", row.need, row.inodes, got, row.want)
		}
	}
	unsure := []Kept{kept("u1", "unknown", 0)}
	if got := Victims(unsure, 1, false); got != nil {
		t.Errorf("%v", got)
	}
	if got := Victims(unsure, 0, true); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
