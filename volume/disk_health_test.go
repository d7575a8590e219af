//go:build disk

package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// published makes volumes and mounts them as a driver does for pods.
func published(t *testing.T, p *volume.Pool, names ...string) (targets []string) {
	t.Helper()
	for _, name := range names {
		v, err := p.Create(spec(name, 1))
		ok(t, err)
		target := t.TempDir()
		testdisk.Bind(t, v.Path, target)
		targets = append(targets, target)
	}
	return targets
}

// ails fails the test unless the pool returns just these problems of its published volumes,
// as "name=problem", and a message with each of these words.
func ails(t *testing.T, p *volume.Pool, words string, want ...string) {
	t.Helper()
	all, err := p.Health()
	ok(t, err)
	var got []string
	for _, v := range all {
		got = append(got, fmt.Sprintf("%s=%s", v.Name, v.Problem))
		if (v.Problem == "") != (v.Message == "") || v.Problem != "" && !strings.Contains(v.Message, words) {
			t.Errorf("%s: %q, want words %q", v.Name, v.Message, words)
		}
		if v.Owner.UID != "uid-"+v.Name {
			t.Errorf("%s belongs to %s", v.Name, v.Owner)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDiskHealthOfOneVolume(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(testdisk.Mount(t, kind), "pool")
			p := opened(t, volume.Config{Path: path})
			_, err := p.Create(spec("unused", 1))
			ok(t, err)
			targets := published(t, p, "a", "b", "c")
			ails(t, p, "", "a=", "b=", "c=")

			// A directory of a volume's own name in it is not the volume, and
			// may be mounted: the kubelet does that for a subPath.
			mkdir(t, filepath.Join(path, "c/c"))
			testdisk.Bind(t, filepath.Join(path, "c/c"), t.TempDir())
			ails(t, p, "", "a=", "b=", "c=")

			ok(t, os.Remove(filepath.Join(path, "a")))
			ails(t, p, "not there", "a=DirectoryMissing", "b=", "c=")
			write(t, filepath.Join(path, "a"), "a file")
			ails(t, p, "not there", "a=DirectoryMissing", "b=", "c=")
			ok(t, os.Remove(filepath.Join(path, "a")))
			// It is back, and the pod still has the one that was removed.
			mkdir(t, filepath.Join(path, "a"))
			ails(t, p, targets[0], "a=StaleMount", "b=", "c=")

			testdisk.Detach(t, targets[0])
			testdisk.Detach(t, targets[1])
			ails(t, p, "", "c=")
		})
	}
}

// A tenant writes until nothing goes any more, on every filesystem.
func TestDiskHealthWhenFull(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(testdisk.Mount(t, kind), "pool")
			p := opened(t, volume.Config{Path: path})
			targets := published(t, p, "a", "b")
			file := filepath.Join(targets[0], "data")
			fill(t, file)
			ails(t, p, "is full", "a=FilesystemFull", "b=FilesystemFull")
			ok(t, os.Remove(file))
			testdisk.Sync(t, path)
			soon(t, "room again", func() error { // XFS frees the blocks in the background
				all, err := p.Health()
				if err == nil && all[0].Problem != "" {
					err = errors.New(all[0].Message)
				}
				return err
			})
			ails(t, p, "", "a=", "b=")
		})
	}
}

// A volume with a quota is full while its filesystem and the other volumes are not.
func TestDiskHealthOfAFullVolume(t *testing.T) {
	path := filepath.Join(testdisk.Mount(t, "btrfs"), "pool")
	p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true})
	var files []string
	for name, bytes := range map[string]int64{"a": 512 << 10, "b": 1 << 20, "c": 16 << 20, "d": 1 << 20} {
		v, err := p.Create(spec(name, bytes))
		ok(t, err)
		testdisk.Bind(t, v.Path, t.TempDir())
		if name != "d" {
			files = append(files, v.Path+"/data")
		}
	}
	testdisk.Sync(t, path)
	ails(t, p, "", "a=", "b=", "c=", "d=")
	for _, file := range files {
		for piece, full := make([]byte, 4<<10), false; !full; {
			f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			ok(t, err)
			_, err = f.Write(piece)
			if full = errors.Is(err, unix.EDQUOT); !full {
				ok(t, err)
			}
			f.Close()
		}
	}
	testdisk.Sync(t, path)
	time.Sleep(2 * time.Second) // what the kernel counted is taken for current that long
	ails(t, p, "is full", "a=VolumeFull", "b=VolumeFull", "c=VolumeFull", "d=")
	for _, file := range files {
		ok(t, os.Remove(file)) // btrfs cuts none short at the quota
	}
	testdisk.Sync(t, path)
	for range 50 {
		time.Sleep(200 * time.Millisecond)
		if all, err := p.Health(); err == nil && all[0].Problem == "" && all[1].Problem == "" && all[2].Problem == "" {
			break
		}
	}
	ails(t, p, "", "a=", "b=", "c=", "d=")
}

// fill writes like a tenant: without root's reserve, in pieces, flushed.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	ok(t, err)
	defer f.Close()
	var st unix.Statfs_t
	ok(t, unix.Fstatfs(int(f.Fd()), &st))
	reserve := int64(st.Bfree-st.Bavail) * st.Bsize
	for piece := make([]byte, 1<<20); ; {
		ok(t, unix.Fstatfs(int(f.Fd()), &st))
		if left := int64(st.Bfree)*st.Bsize - reserve; left <= st.Bsize {
			return
		}
		if _, err := f.Write(piece); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func TestDiskHealthWithoutInodes(t *testing.T) {
	path := filepath.Join(testdisk.Mount(t, "ext4"), "pool")
	p := opened(t, volume.Config{Path: path})
	target := published(t, p, "a")[0]
	for n := 0; ; n++ {
		if err := os.WriteFile(filepath.Join(target, fmt.Sprint(n)), nil, 0o600); errors.Is(err, unix.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	ails(t, p, "no inodes left", "a=InodesExhausted")
	ok(t, os.Remove(filepath.Join(target, "0")))
	ails(t, p, "", "a=")
}

func TestDiskHealthOfThePool(t *testing.T) {
	image := testdisk.Image(t, "ext4")
	path := t.TempDir()
	testdisk.Attach(t, image, path)
	p := opened(t, volume.Config{Path: path})
	targets := published(t, p, "a")
	testdisk.Run(t, "mount", "-o", "remount,ro", path)
	ails(t, p, "read-only", "a=FilesystemReadOnly")
	testdisk.Run(t, "mount", "-o", "remount,rw", path)
	ails(t, p, "", "a=")

	// The disk is replaced by its copy under running pods.
	replica := filepath.Join(t.TempDir(), "replica.img")
	testdisk.Sync(t, path)
	testdisk.Run(t, "cp", "--sparse=always", image, replica)
	testdisk.Detach(t, path)
	ails(t, p, "not ready", "a=PoolNotReady")
	testdisk.Attach(t, replica, path)
	ails(t, p, targets[0], "a=StaleMount")
	testdisk.Detach(t, targets[0])
	ails(t, p, "")
	testdisk.Bind(t, filepath.Join(path, "a"), targets[0])
	ails(t, p, "", "a=")

	ok(t, p.Close())
	ails(t, p, "it was closed", "a=PoolNotReady")
}

// An error on the disk stops writing, and only the mount's options show it.
func TestDiskHealthAfterAnError(t *testing.T) {
	path := testdisk.Mount(t, "ext4")
	p := opened(t, volume.Config{Path: path})
	published(t, p, "a")
	testdisk.Shutdown(t, path)
	ails(t, p, "writes no more", "a=FilesystemReadOnly")
}

// A tenant makes a directory with the name of another tenant's volume in its own volume, and mounts
// it by a subPath: the other volume has no problem. Its own mounts are found stale all the same.
func TestDiskStaleMountOfAnotherTenant(t *testing.T) {
	path := filepath.Join(testdisk.Mount(t, "ext4"), "pool")
	p := opened(t, volume.Config{Path: path})
	victim, err := p.Create(spec("pvc-victim", 1))
	ok(t, err)
	tenant, err := p.Create(spec("pvc-tenant", 1))
	ok(t, err)
	pods := filepath.Join(t.TempDir(), "kubelet/pods")
	at := func(point string) string {
		point = filepath.Join(pods, point)
		mkdir(t, point)
		return point
	}
	target := at("1/volumes/kubernetes.io~csi/pv-pvc-victim/mount")
	testdisk.Bind(t, victim.Path, target)
	testdisk.Bind(t, tenant.Path, at("2/volumes/kubernetes.io~csi/pv-pvc-tenant/mount"))
	mkdir(t, filepath.Join(tenant.Path, "pvc-victim"))
	testdisk.Bind(t, filepath.Join(tenant.Path, "pvc-victim"), at("2/volume-subpaths/v/main/0"))
	ails(t, p, "", "pvc-tenant=", "pvc-victim=")

	ok(t, os.Remove(victim.Path))
	mkdir(t, victim.Path)
	ails(t, p, target, "pvc-tenant=", "pvc-victim=StaleMount")
}
