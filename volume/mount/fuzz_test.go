package mount_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// Whatever mountinfo holds, reading it does not panic, and what was read can be
// asked what may not be removed.
func FuzzParse(f *testing.F) {
	f.Add(node, "/var/pool/v")
	f.Add(node+"60 51 8:17 /a\\040b\\134c /mnt/x\\011y\\012\\043 ro,nosuid - fuse.sshfs user@host:/x\\040y rw,user_id=0\n", "/mnt")
	f.Add("61 51 8:17 /gone//deleted /mnt/z rw - xfs /dev/sdb1\n62 61 0:0 / / rw - - -\n", "/")
	f.Add("1 1 4294967295:4294967295 // // rw a b c - x y z\n", "//")
	f.Add("1 1 0:1 / / rw - x \\4\n", "")
	f.Fuzz(func(t *testing.T, text, dir string) {
		all, err := mount.Parse(strings.NewReader(text))
		if err != nil {
			if len(all) > 0 {
				t.Errorf("mounts %+v beside the error %v", all, err)
			}
			return
		}
		if lines := strings.Count(text, "\n"); len(all) < lines {
			t.Errorf("%d mounts of %d lines", len(all), lines)
		}
		for _, i := range all {
			i.SuperOption("rw")
			i.Shows(all[0], dir)
			if found, ok := mount.ByID(all, i.ID); !ok || found.ID != i.ID {
				t.Errorf("no mount has the ID %d", i.ID)
			}
			points, err := mount.Users(all, i.ID, dir)
			if err == nil && len(points) > len(all) {
				t.Errorf("%d points of %d mounts", len(points), len(all))
			}
		}
	})
}

// A directory is found to be in use under any name: the kernel escapes it, and the parser
// decodes it.
func FuzzEscapedNames(f *testing.F) {
	for _, name := range []string{"v", "a b", `a\b`, `\040`, "tab\tnewline\n#", "//deleted", "\xff\x00"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return // the kernel has no such name
		}
		line := func(id int, root, point string) string {
			return fmt.Sprintf("%d 1 8:1 %s %s rw - xfs /dev/sdb rw\n", id, mangle(root), mangle(point))
		}
		dir := path.Join("/pool", name)
		all := parse(t, line(1, "/", "/")+line(2, dir, "/target")+line(3, "/pool/"+name+"-other", "/other"))
		if points, err := mount.Users(all, 1, dir); err != nil || len(points) != 1 || points[0] != "/target" {
			t.Errorf("users of %q: %q, %v", dir, points, err)
		}
	})
}

// mangle escapes as the kernel does (mangle in fs/proc_namespace.c).
func mangle(s string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`).Replace(s)
}

// Options are either accepted or refused. Accepted ones decide whether a mount is readonly.
func FuzzParseFlags(f *testing.F) {
	f.Add("ro,nosuid", false)
	f.Add("rw,noatime,relatime", true)
	f.Add("bind,defaults,,", false)
	f.Fuzz(func(t *testing.T, options string, readonly bool) {
		flags, err := mount.ParseFlags(strings.Split(options, ","), readonly)
		if err == nil && readonly && !flags.Readonly() {
			t.Errorf("%q: not read-only", options)
		}
		flags.Differ(mount.Info{Options: options})
	})
}
