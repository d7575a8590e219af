//go:build disk

package volume_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// reflinking are the filesystems whose files share blocks.
var reflinking = []string{"xfs", "btrfs"}

// random writes so many random bytes to a file, and returns them.
func random(t *testing.T, path string, size int64) []byte {
	t.Helper()
	data := make([]byte, size)
	rand.Read(data)
	ok(t, os.WriteFile(path, data, 0o600))
	testdisk.Sync(t, filepath.Dir(path))
	return data
}

func free(t *testing.T, p *volume.Pool) int64 {
	t.Helper()
	testdisk.Sync(t, p.Path())
	s, err := p.Space()
	ok(t, err)
	return s.Free
}

func sameContent(t *testing.T, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want %d others", path, len(got), err, len(want))
	}
}

// A clone shares its blocks with the source, and nothing else: each is written alone, and stays.
func TestDiskClone(t *testing.T) {
	for _, kind := range reflinking {
		t.Run(kind, func(t *testing.T) {
			p := opened(t, volume.Config{Path: testdisk.Mount(t, kind) + "/pool"})
			v, err := p.Create(spec("v", 64*mib))
			ok(t, err)
			data := random(t, v.Path+"/data", 32*mib)
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			before := free(t, p)
			s := cloneOf(p, spec("c", 64*mib))
			s.CopyBytes = false
			c, err := awaited(p, s)
			ok(t, err)
			if used := before - free(t, p); used > 4*mib {
				t.Errorf("the clone took %d bytes of the disk", used)
			}
			sameContent(t, c.Path+"/data", data)
			changed := random(t, v.Path+"/data", 8*mib)
			sameContent(t, c.Path+"/data", data)
			ok(t, os.WriteFile(c.Path+"/more", []byte("of the clone"), 0o600))
			sameContent(t, v.Path+"/data", changed)
			if there(v.Path + "/more") {
				t.Error("the source has what was written to the clone")
			}
			ok(t, p.Delete("v"))
			purge(t, p)
			sameContent(t, c.Path+"/data", data)
			consistent(t, p)
		})
	}
}

// Without reflinks bytes are copied if that is permitted, at the rate of the pool, and refused otherwise.
func TestDiskCloneOfBytes(t *testing.T) {
	p := opened(t, volume.Config{Path: testdisk.Mount(t, "ext4") + "/pool", CopyRate: 8 * mib})
	v, err := p.Create(spec("v", 64*mib))
	ok(t, err)
	data := random(t, v.Path+"/data", 12*mib)
	_, err = p.Bind("v", binding("v"))
	ok(t, err)
	s := cloneOf(p, spec("c", 64*mib))
	s.CopyBytes = false
	_, err = awaited(p, s)
	is(t, err, volume.ErrUnshared)
	s.CopyBytes = true
	begin := time.Now()
	c, err := awaited(p, s)
	ok(t, err)
	if took := time.Since(begin); took < time.Second {
		t.Errorf("12 MiB at 8 MiB a second took %s", took)
	}
	sameContent(t, c.Path+"/data", data)
}

// used has something mounted from a volume, as a pod does, until the test ends.
func used(t *testing.T, v volume.Volume) {
	t.Helper()
	testdisk.Bind(t, v.Path, t.TempDir())
}

// Of a volume in use a clone is what its class asks for, or there is none.
func TestDiskCloneInUse(t *testing.T) {
	for _, row := range []struct {
		kind        string
		files       int
		consistency volume.Consistency
		copyBytes   bool
		want        error
	}{
		{"xfs", 1, volume.ConsistencyCrash, false, nil},
		{"xfs", 1, volume.ConsistencyCrash, true, nil},
		{"xfs", 2, volume.ConsistencyCrash, true, volume.ErrInUse},
		{"xfs", 2, volume.ConsistencyFuzzy, false, nil},
		{"ext4", 1, volume.ConsistencyCrash, true, volume.ErrInUse},
		{"ext4", 1, volume.ConsistencyFuzzy, false, volume.ErrUnshared},
		{"ext4", 2, volume.ConsistencyFuzzy, true, nil},
	} {
		t.Run(fmt.Sprintf("%s, %d files, %s, bytes %v", row.kind, row.files, row.consistency, row.copyBytes), func(t *testing.T) {
			p := opened(t, volume.Config{Path: testdisk.Mount(t, row.kind) + "/pool"})
			v, err := p.Create(spec("v", 64*mib))
			ok(t, err)
			var data []byte
			for i := range row.files {
				data = random(t, fmt.Sprintf("%s/data%d", v.Path, i), mib)
			}
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			used(t, v)
			s := cloneOf(p, spec("c", 64*mib))
			s.Consistency, s.CopyBytes = row.consistency, row.copyBytes
			c, err := awaited(p, s)
			if row.want != nil {
				is(t, err, row.want)
				is(t, err, volume.ErrSource)
				purge(t, p)
				consistent(t, p)
				return
			}
			ok(t, err)
			sameContent(t, fmt.Sprintf("%s/data%d", c.Path, row.files-1), data)
		})
	}
}

// A clone of a source on another filesystem is a copy of its bytes.
func TestDiskCloneAcrossPools(t *testing.T) {
	from := opened(t, volume.Config{Name: "from", Path: testdisk.Mount(t, "xfs") + "/pool"})
	to := opened(t, volume.Config{Name: "to", Path: testdisk.Mount(t, "btrfs") + "/pool"})
	pools, err := volume.NewPools(from, to)
	ok(t, err)
	v, err := pools.Create(from, spec("v", 16*mib))
	ok(t, err)
	data := random(t, v.Path+"/data", 4*mib)
	_, err = from.Bind("v", binding("v"))
	ok(t, err)
	r, _ := from.Cached("v")
	source := record.SourceOf(from.ID(), r)
	s := volume.CloneSpec{Spec: spec("c", 16*mib), From: from}
	s.Source = &source
	_, err = pools.Clone(to, s)
	is(t, err, volume.ErrUnshared)
	s.CopyBytes = true
	c, err := awaited(to, s)
	ok(t, err)
	sameContent(t, c.Path+"/data", data)
	if _, _, err = pools.Find("c"); err != nil {
		t.Error(err)
	}
	_, err = pools.Clone(from, s)
	is(t, err, volume.ErrConflict)
	consistent(t, from)
	consistent(t, to)
}
