//go:build disk

package tree_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// xattrs are those of a path that Copy copies.
func xattrs(t *testing.T, path string) map[string]string {
	t.Helper()
	buf, all := make([]byte, 64<<10), map[string]string{}
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(buf[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10)
		if n, err := unix.Lgetxattr(path, name, value); err == nil {
			all[name] = string(value[:n])
		}
	}
	delete(all, "")
	return all
}

// What only root can give: owners, attributes, ACLs and capabilities.
func TestDiskCopyKeepsWhoMayDoWhat(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		entry := filepath.Join(dir, "entry")
		populate(t, entry)
		program := filepath.Join(entry, "dir/program")
		write(t, program, "x")
		os.Symlink("program", filepath.Join(entry, "dir/link"))
		os.Lchown(filepath.Join(entry, "dir/link"), 1001, 1002)
		os.Chown(program, 1003, 1004)
		os.Chmod(program, 0o755|os.ModeSetuid|os.ModeSetgid)
		// cap_net_bind_service, effective, of vfs_cap_data revision 2.
		capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		for name, value := range map[string]string{
			"user.text": "x", "user.long": strings.Repeat("v", 300), "trusted.mark": "y", "security.capability": capability,
			"security.selinux": "system_u:object_r:container_file_t:s0:c1,c2\x00",
		} {
			if err := unix.Lsetxattr(program, name, []byte(value), 0); err != nil {
				t.Fatal(name, err)
			}
		}
		testdisk.Run(t, "setfacl", "-m", "u:1005:r--", program)
		testdisk.Run(t, "setfacl", "-d", "-m", "u:1006:rwx", filepath.Join(entry, "dir"))
		os.Mkdir(filepath.Join(entry, "dir/without"), 0o700) // has inherited a default ACL
		testdisk.Run(t, "setfacl", "-b", filepath.Join(entry, "dir/without"))

		path, left := copied(t, dir)
		same(t, entry, path)
		if left.Total != 0 {
			t.Errorf("%v", left)
		}
		for _, name := range []string{"dir", "dir/program", "dir/without"} {
			want, got := xattrs(t, filepath.Join(entry, name)), xattrs(t, filepath.Join(path, name))
			if delete(want, "security.selinux"); !maps.Equal(want, got) || name != "dir/without" && len(got) == 0 {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

func TestDiskCopyHolesAndSharing(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			dir := testdisk.Mount(t, kind)
			sparse := filepath.Join(dir, "entry/sparse")
			write(t, sparse, strings.Repeat("a", 1<<20))
			f, err := os.OpenFile(sparse, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteAt(bytes.Repeat([]byte("b"), 2<<20+5), 64<<20)
			f.Truncate(1 << 30)
			f.Sync()
			f.Close()
			path, _ := copied(t, dir)
			same(t, filepath.Dir(sparse), path)
			testdisk.Sync(t, dir)
			if st := stat(t, filepath.Join(path, "sparse")); st.Size != 1<<30 || st.Blocks*512 > 8<<20 {
				t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
			}
			// What is shared takes no space: more of it than the disk has.
			if kind == "ext4" {
				return
			}
			write(t, filepath.Join(dir, "big/data"), strings.Repeat("x", 60<<20))
			for i := range 8 {
				to := filepath.Join(dir, "copies", string(rune('a'+i)))
				os.MkdirAll(to, 0o700)
				if _, err := tree.Copy(t.Context(), open(t, dir), "big", open(t, to), tree.CopyOptions{}); err != nil {
					t.Fatalf("copy %d: %v", i, err)
				}
			}
		})
	}
}

// From any filesystem to any other, and back to what it was.
func TestDiskCopyAcross(t *testing.T) {
	memory := t.TempDir()
	if err := unix.Mount("none", memory, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testdisk.Detach(t, memory) })
	populate(t, filepath.Join(memory, "first"))
	last, fd := filepath.Join(memory, "first"), open(t, memory)
	for _, kind := range testdisk.Kinds() {
		dir := testdisk.Mount(t, kind)
		next := filepath.Join(dir, "entry")
		os.Mkdir(next, 0o700)
		if _, err := tree.Copy(t.Context(), fd, filepath.Base(last), open(t, next), tree.CopyOptions{}); err != nil {
			t.Fatalf("to %s: %v", kind, err)
		}
		same(t, last, next)
		last, fd = next, open(t, dir)
	}
	back := filepath.Join(memory, "back")
	os.Mkdir(back, 0o700)
	if _, err := tree.Copy(t.Context(), fd, filepath.Base(last), open(t, back), tree.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, filepath.Join(memory, "first"), back)
}

// Nothing that is not the tenant's own data gets into a copy.
func TestDiskCopyLeavesOut(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		entry := filepath.Join(dir, "entry")
		write(t, filepath.Join(dir, "outside/secret"), "x")
		for _, name := range []string{"bound", "memory", "low", "up", "work", "merged"} {
			os.MkdirAll(filepath.Join(entry, name), 0o755)
		}
		write(t, filepath.Join(entry, "file"), "below")
		write(t, filepath.Join(entry, "low/gone"), "x")
		unix.Mknod(filepath.Join(entry, "disk\n"), unix.S_IFBLK|0o666, int(unix.Mkdev(8, 0)))
		unix.Mknod(filepath.Join(entry, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		testdisk.Bind(t, filepath.Join(dir, "outside"), filepath.Join(entry, "bound"))
		testdisk.Bind(t, filepath.Join(dir, "outside/secret"), filepath.Join(entry, "file"))
		mountInside(t, entry)
		os.Remove(filepath.Join(entry, "merged/gone")) // leaves a whiteout in up
		path, left := copied(t, dir)
		if said := left.String(); left.Total != 6 || strings.Count(said, "mounted") != 4 || strings.Count(said, "device node") != 2 ||
			!strings.Contains(said, `"disk\n"`) || strings.Contains(said, "disk\n") {
			t.Errorf("%q", said)
		}
		for _, name := range []string{"bound", "file", "memory", "merged", "null", "disk\n"} {
			if there(filepath.Join(path, name)) {
				t.Errorf("%s was copied", name)
			}
		}
		if st := stat(t, filepath.Join(path, "up/gone")); st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
			t.Errorf("the whiteout is %o", st.Mode)
		}
	})
}

// mountInside mounts a tmpfs and an overlay in a tree that has directories for
// them.
func mountInside(t *testing.T, entry string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(entry, name) }
	options := "lowerdir=" + in("low") + ",upperdir=" + in("up") + ",workdir=" + in("work")
	if err := errors.Join(unix.Mount("none", in("memory"), "tmpfs", 0, ""), unix.Mount("none", in("merged"), "overlay", 0, options)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testdisk.Detach(t, in("memory"))
		testdisk.Detach(t, in("merged"))
	})
	write(t, in("memory/data"), "x")
	write(t, in("merged/data"), "x")
}
