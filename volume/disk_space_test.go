//go:build disk

package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// crowded is a pool on a disk of 320 MiB that others have filled to a good third.
func crowded(t *testing.T, kind string) *volume.Pool {
	t.Helper()
	path := testdisk.Mount(t, kind)
	testdisk.Run(t, "fallocate", "-l", "120M", filepath.Join(path, "others"))
	return opened(t, volume.Config{Path: path + "/pool"})
}

func spaceOf(t *testing.T, p *volume.Pool) space.Space {
	t.Helper()
	testdisk.Sync(t, p.Path())
	s, err := p.Space()
	ok(t, err)
	return s
}

// A volume removes a big file: its space is still allocated to it, and is not
// allocated to another before the next walk, nor after it.
func TestDiskSpaceOfRemovedFiles(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := crowded(t, kind)
			before := spaceOf(t, p)
			v, err := p.Create(spec("a", before.Available-8*mib))
			ok(t, err)
			ok(t, os.WriteFile(filepath.Join(v.Path, "big"), make([]byte, before.Available-32*mib), 0o644))
			testdisk.Sync(t, p.Path())
			ok(t, p.Measure(t.Context()))
			if s := spaceOf(t, p); s.Used < before.Available-33*mib || s.Available > 9*mib {
				t.Errorf("measured: %+v", s)
			}
			ok(t, os.Remove(filepath.Join(v.Path, "big")))
			for _, when := range []string{"removed", "measured again"} {
				if s := spaceOf(t, p); s.Available > 9*mib {
					t.Errorf("%s: %+v", when, s)
				}
				_, err = p.Create(spec("b", 16*mib))
				is(t, err, volume.ErrNoSpace)
				ok(t, p.Measure(t.Context()))
			}
		})
	}
}

// Copies that share their blocks with the original take no space, and so are no part
// of what the volume has taken already.
func TestDiskSpaceOfReflinks(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			p := crowded(t, kind)
			v, err := p.Create(spec("a", spaceOf(t, p).Available))
			ok(t, err)
			ok(t, os.WriteFile(filepath.Join(v.Path, "f"), make([]byte, 4*mib), 0o644))
			testdisk.Sync(t, p.Path())
			for i := range 60 {
				testdisk.Run(t, "cp", "--reflink=always", filepath.Join(v.Path, "f"), filepath.Join(v.Path, fmt.Sprint("g", i)))
			}
			testdisk.Sync(t, p.Path())
			for range 2 {
				ok(t, p.Measure(t.Context()))
				if s := spaceOf(t, p); s.Available > mib || s.Used > mib {
					t.Errorf("%+v", s)
				}
			}
			if all, err := p.Usages(); err != nil || len(all) != 1 || all[0].Bytes < 244*mib {
				t.Errorf("what the volume shows as its use: %+v, %v", all, err)
			}
		})
	}
}

// Files are written, removed, shared and moved at random, volumes come and go, and
// whatever is available is there.
func TestDiskAllocationsHold(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := crowded(t, kind)
			r := rand.New(rand.NewPCG(1, 2))
			var files [][2]string // volume and file
			for i := range 120 {
				all, err := p.List()
				ok(t, err)
				switch n := r.IntN(8); {
				case n == 0 || len(all) == 0:
					s := spaceOf(t, p)
					lacking(t, p, s, mib)
					if bytes := min(s.Available, 8*mib+r.Int64N(32*mib)); bytes > 0 {
						_, err := p.Create(spec(fmt.Sprint("v", i), bytes))
						ok(t, err)
					}
				case n == 1:
					ok(t, p.Measure(t.Context()))
				case n < 5:
					v := all[r.IntN(len(all))]
					size, err := du(v.Path)
					ok(t, err)
					if room := v.Bytes - size - mib; room > 0 {
						path := filepath.Join(v.Path, fmt.Sprint("f", i))
						ok(t, os.WriteFile(path, make([]byte, 1+r.Int64N(room)), 0o644))
						files = append(files, [2]string{v.Name, path})
					}
				case n == 5 && kind != "ext4" && len(files) > 0:
					f := files[r.IntN(len(files))]
					copied := fmt.Sprint(f[1], "-", i)
					v, err := p.Get(f[0])
					size, err2 := du(v.Path)
					st, err3 := os.Stat(f[1])
					ok(t, errors.Join(err, err2, err3))
					if size+st.Size() < v.Bytes-mib {
						testdisk.Run(t, "cp", "--reflink=always", f[1], copied)
						files = append(files, [2]string{f[0], copied})
					}
				case n == 6 && len(files) > 0:
					i := r.IntN(len(files))
					ok(t, os.Remove(files[i][1]))
					files = append(files[:i], files[i+1:]...)
				case n == 7 && i%4 == 0:
					v := all[r.IntN(len(all))]
					ok(t, p.Delete(v.Name))
					kept := files[:0]
					for _, f := range files {
						if f[0] != v.Name {
							kept = append(kept, f)
						}
					}
					files = kept
					purge(t, p)
				}
			}
			// Decisive is the disk: every volume can be filled.
			all, err := p.List()
			ok(t, err)
			for _, v := range all {
				size, err := du(v.Path)
				ok(t, err)
				if room := v.Bytes - size - 2*mib; room > 0 {
					if err := os.WriteFile(filepath.Join(v.Path, "rest"), make([]byte, room), 0o644); err != nil {
						t.Errorf("%s has %d bytes of its %d: %v", v.Name, size, v.Bytes, err)
					}
				}
			}
		})
	}
}

// lacking checks that what volumes lack of their size, and what is available, is
// free, but for so many bytes that the filesystem needs for itself.
func lacking(t *testing.T, p *volume.Pool, s space.Space, slack int64) {
	t.Helper()
	all, err := p.List()
	ok(t, err)
	sum := int64(0)
	for _, v := range all {
		size, err := du(v.Path)
		ok(t, err)
		sum += max(0, v.Bytes-size)
	}
	if s.Available > 0 && sum+s.Available > s.Free+slack {
		t.Fatalf("%d bytes lack and %+v", sum, s)
	}
}

// du sums the files of a directory, shared or not.
func du(path string) (sum int64, err error) {
	files, err := os.ReadDir(path)
	for _, f := range files {
		var st unix.Stat_t
		err = errors.Join(err, unix.Stat(filepath.Join(path, f.Name()), &st))
		sum += st.Blocks * 512
	}
	return sum, err
}
