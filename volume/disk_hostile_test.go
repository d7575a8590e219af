//go:build disk

package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A file of which another volume has a link, which only the node's root can
// have made, keeps all it has but that one name.
func TestDiskLinkFromAnotherVolume(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			path := testdisk.Mount(t, kind)
			p := opened(t, volume.Config{Path: path})
			for _, name := range []string{"v", "w"} {
				_, err := p.Create(spec(name, 1))
				ok(t, err)
			}
			if kind == "btrfs" { // subvolumes have no links of each other
				bash(t, path, "rmdir v w; mkdir v w")
			}
			for _, name := range []string{"plain", "frozen"} {
				kept := filepath.Join(path, "w", name)
				write(t, kept, "kept")
				ok(t, os.Chmod(kept, 0o4640))
				ok(t, os.Chown(kept, 1001, 1002))
				ok(t, os.Link(kept, filepath.Join(path, "v", name)))
			}
			testdisk.Run(t, "chattr", "+i", filepath.Join(path, "w/frozen"))
			stat := func(name string) (st unix.Stat_t) {
				ok(t, unix.Lstat(filepath.Join(path, "w", name), &st))
				return st
			}
			plain, frozen := stat("plain"), stat("frozen")
			ok(t, p.Delete("v"))
			purge(t, p)
			for name, before := range map[string]unix.Stat_t{"plain": plain, "frozen": frozen} {
				now := stat(name)
				data, err := os.ReadFile(filepath.Join(path, "w", name))
				if now.Nlink != 1 || now.Mode != before.Mode || now.Uid != before.Uid || now.Gid != before.Gid || now.Ino != before.Ino ||
					string(data) != "kept" || err != nil {
					t.Errorf("%s: %+v, was %+v; %q, %v", name, now, before, data, err)
				}
			}
			if err := os.WriteFile(filepath.Join(path, "w/frozen"), nil, 0o600); err == nil {
				t.Error("the immutable file is not any more")
			}
			testdisk.Run(t, "chattr", "-i", filepath.Join(path, "w/frozen"))
		})
	}
}

// While a volume of many small files is purged, others are made and deleted
// as ever: a million with HPP_LONG=1.
func TestDiskManyFiles(t *testing.T) {
	files := 30000
	if os.Getenv("HPP_LONG") != "" {
		files = 1000000
	}
	memory := t.TempDir()
	testdisk.Root(t)
	ok(t, unix.Mount("none", memory, "tmpfs", 0, "nr_inodes=0"))
	t.Cleanup(func() { testdisk.Detach(t, memory) })
	p := opened(t, volume.Config{Path: filepath.Join(memory, "pool")})
	_, err := p.Create(spec("many", 1))
	ok(t, err)
	for i := range files {
		dir := filepath.Join(p.Path(), "many", fmt.Sprint(i/1000))
		if i%1000 == 0 {
			mkdir(t, dir)
		}
		fd, err := unix.Open(filepath.Join(dir, fmt.Sprint(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		ok(t, err)
		unix.Close(fd)
	}
	ok(t, p.Delete("many"))
	purged := make(chan error, 1)
	go func() {
		for {
			if more, err := p.Purge(t.Context()); err != nil || !more {
				purged <- err
				return
			}
		}
	}()
	for n := 0; ; n++ {
		select {
		case err := <-purged:
			if err != nil || n < 3 {
				t.Errorf("%d volumes came and went meanwhile, %v", n, err)
			}
			purge(t, p)
			consistent(t, p)
			return
		default:
		}
		name := fmt.Sprint("v", n)
		_, err := p.Create(spec(name, 1))
		ok(t, err)
		ok(t, p.Delete(name))
	}
}

// Between any two steps of a volume's life its directory is swapped for a link
// to what is precious, and back.
func TestDiskVolumeSwappedBetweenSteps(t *testing.T) {
	for _, kind := range append(testdisk.Kinds(), "btrfs with quotas") {
		t.Run(kind, func(t *testing.T) {
			kind, quotas := strings.CutSuffix(kind, " with quotas")
			path := testdisk.Mount(t, kind)
			precious := t.TempDir()
			write(t, filepath.Join(precious, "sub/data"), "x")
			ok(t, os.Chmod(precious, 0o705))
			swaps := 0
			p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: quotas, Step: func(string) {
				for _, dir := range []string{path, filepath.Join(path, staging), filepath.Join(path, "v")} {
					if unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "v"), unix.AT_FDCWD, filepath.Join(path, "link"), unix.RENAME_EXCHANGE) == nil {
						swaps++
					}
				}
			}})
			for range 20 {
				ok(t, os.Symlink(precious, filepath.Join(path, "link")))
				_, _ = p.Create(spec("v", 1))
				if fd, err := unix.Open(filepath.Join(path, "v"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
					unix.Mkdirat(fd, "v", 0o755)
					unix.Close(fd)
				}
				_, _ = p.Bind("v", binding("v"))
				_ = p.Pin("v", func(volume.Pinned) error { return nil })
				_ = p.Delete("v")
				_, _ = p.Purge(t.Context())
				os.RemoveAll(filepath.Join(path, "link"))
				os.RemoveAll(filepath.Join(path, "v"))
				_ = p.Delete("v")
			}
			st, err := os.Stat(precious)
			if err != nil || st.Mode().Perm() != 0o705 || !there(filepath.Join(precious, "sub/data")) || swaps < 20 {
				t.Errorf("%v, %v after %d swaps", st.Mode(), err, swaps)
			}
			if got := names(t, precious); len(got) != 1 {
				t.Errorf("something was made outside: %v", got)
			}
		})
	}
}
