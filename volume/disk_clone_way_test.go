//go:build disk

package volume_test

import (
	"errors"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A pod that begins to use a volume waits some seconds for a copy that shares its blocks, and not for one
// of bytes, nor for one that takes longer.
func TestDiskCloneMakesWay(t *testing.T) {
	for _, row := range []struct {
		name, kind  string
		ends        bool // the copy goes on once the pod waits
		least, most time.Duration
		want        error
	}{
		{"shared", "xfs", true, 500 * time.Millisecond, 4 * time.Second, nil},
		{"shared, for long", "xfs", false, 5 * time.Second, 9 * time.Second, volume.ErrYielded},
		{"bytes", "ext4", false, 0, 4 * time.Second, volume.ErrYielded},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			reached, gate := make(chan struct{}, 100), make(chan struct{})
			p := opened(t, volume.Config{Path: testdisk.Mount(t, row.kind) + "/pool", Step: func(step string) {
				if step == "clone.copy" {
					reached <- struct{}{}
					<-gate
				}
			}})
			v, err := p.Create(spec("v", 64*mib))
			ok(t, err)
			write(t, v.Path+"/data", "of v")
			write(t, v.Path+"/more", "of v")
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			_, err = p.Clone(cloneOf(p, spec("c", 64*mib)))
			is(t, err, volume.ErrCloning)
			<-reached
			j, _ := p.CloneJob("c")
			if row.ends {
				time.AfterFunc(row.least, func() { close(gate) })
			}
			begin := time.Now()
			p.MakeWay(t.Context(), "v")
			if took := time.Since(begin); took < row.least || took > row.most {
				t.Errorf("the pod waits for %s", took)
			}
			ok(t, p.Pin("v", func(volume.Pinned) error { return nil }))
			if !row.ends {
				close(gate)
			}
			<-j.Ended
			if j, there := p.CloneJob("c"); there && !errors.Is(j.Err, row.want) || there != (row.want != nil) {
				t.Errorf("%v, want %v", j.Err, row.want)
			}
			purge(t, p)
			consistent(t, p)
		})
	}
}

// The copy's own directory has the label of the pool, not that of the pods that used the source.
func TestDiskCloneHasThePoolsLabel(t *testing.T) {
	const ours, theirs = "system_u:object_r:container_file_t:s0", "system_u:object_r:container_file_t:s0:c1,c2"
	for kind, quotas := range map[string]bool{"btrfs": true, "xfs": false, "ext4": false} {
		t.Run(kind, func(t *testing.T) {
			p := opened(t, volume.Config{Path: testdisk.Mount(t, kind) + "/pool", EnableBtrfsQuota: quotas, Label: ours})
			s := spec("v", 64*mib)
			c := spec("c", 64*mib)
			v, err := p.Create(s)
			ok(t, err)
			write(t, v.Path+"/data", "x")
			write(t, v.Path+"/more", "x")
			bash(t, v.Path, "setfattr -h -n security.selinux -v "+theirs+" . data more")
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			made, err := cloned(p, c)
			ok(t, err)
			if got := bash(t, made.Path, "getfattr --absolute-names --only-values -n security.selinux ."); got != ours && got != ours+"\x00" {
				t.Errorf("the label is %q", got)
			}
		})
	}
}
