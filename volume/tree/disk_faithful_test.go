//go:build disk

package tree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// A way is how the data of a copy gets there.
type way struct {
	name     string
	shared   bool
	from, to func(t *testing.T) string
}

// ways are sharing on filesystems that can, and bytes, on one disk and between two.
func ways() (all []way) {
	mount := func(kind string) func(*testing.T) string {
		return func(t *testing.T) string { return testdisk.Mount(t, kind) }
	}
	for _, kind := range testdisk.Kinds() {
		all = append(all, way{kind, kind != "ext4", mount(kind), nil}, way{kind + " to another", false, mount(kind), mount(kind)})
	}
	return all
}

// copyAs copies dir/entry with options to a new directory below to.
func copyAs(t *testing.T, dir, to string, o tree.CopyOptions) (string, tree.Copied, error) {
	t.Helper()
	path, err := os.MkdirTemp(to, "copy-")
	if err != nil {
		t.Fatal(err)
	}
	made, err := tree.Copy(t.Context(), open(t, dir), "entry", open(t, path), o)
	return path, made, err
}

// Names, data, holes, links, owners, set-user-ID, ACLs, capabilities and attributes are the same,
// and so are flags and allocated space, by either way.
func TestDiskCopyIsFaithful(t *testing.T) {
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			dir := way.from(t)
			to := dir
			if way.to != nil {
				to = way.to(t)
			}
			entry := filepath.Join(dir, "entry")
			populate(t, entry)
			owned(t, entry)
			flagged(t, entry)
			shell(t, to, "setfacl -d -m u:1099:rwx .") // the copy must not inherit it
			path, made, err := copyAs(t, dir, to, tree.CopyOptions{Share: way.shared})
			if err != nil || made.LeftOut.Total != 0 || made.Tries != 1 {
				t.Fatalf("%+v, %v", made, err)
			}
			if way.shared != (made.Bytes == 0) {
				t.Errorf("%d bytes were written", made.Bytes)
			}
			same(t, entry, path)
			for _, show := range []string{
				"lsattr -d . third-link owned flags flags/* | sed 's/-*e-*//'",
				"getfacl -p -n . $(find owned flags | sort)", "getcap owned/program",
				"getfattr -d -h -m '^(user|trusted|btrfs)' . $(find owned flags | sort)",
				"for f in allocated beyond; do filefrag -s -v flags/$f | awk '/unwritten/ { sum += $6 } END { print sum }'; done",
				"stat -c '%A %u %g' . owned/*",
			} {
				if want, got := shell(t, entry, show), shell(t, path, show); want != got || want == "" {
					t.Errorf("%s\nthe original:\n%s\nthe copy:\n%s", show, want, got)
				}
			}
			thaw(t, entry)
			thaw(t, path)
		})
	}
}

func shell(t *testing.T, dir, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// owned makes files whose attributes only root can give, and a root that is not the class's.
func owned(t *testing.T, entry string) {
	shell(t, entry, `mkdir owned && cd owned && echo x > program && chown 1003:1004 program && chmod 6755 program
		setcap cap_net_bind_service+ep program
		setfattr -n user.text -v x program && setfattr -n trusted.mark -v y program
		setfacl -m u:1005:r-- program
		mkdir given && chown 107:108 given && chmod 2770 given && setfacl -d -m u:1006:rwx given && mkdir given/inherits
		setfacl -m u:1010:rx .. && setfacl -d -m g:1011:rx .. && chown 2000:2001 .. && chmod g+s ..`)
}

// flagged makes files with each flag that a copy keeps, alone and with several links, and a file
// with space that is allocated beyond its end and inside it.
func flagged(t *testing.T, entry string) {
	shell(t, entry, `mkdir flags && cd flags && for f in append nodump both first; do echo $f > $f; done
		ln first second; ln first ../third-link
		fallocate -l 1M -o 3M allocated && printf x | dd of=allocated conv=notrunc status=none
		fallocate -n -l 2M beyond && echo y >> beyond
		mkdir grows && echo z > grows/z && chattr +a grows
		chattr +a append first && chattr +d nodump && chattr +ad both`)
	if strings.Contains(shell(t, entry, "stat -f -c %T ."), "btrfs") {
		shell(t, entry, `cd flags && touch nocow && chattr +C nocow && dd if=/dev/urandom bs=64k count=4 of=nocow status=none
			mkdir packed && setfattr -n btrfs.compression -v zstd packed && mkdir whole && chattr +C whole`)
	}
	shell(t, entry, "sync -f .")
}

func thaw(t *testing.T, path string) { shell(t, path, "chattr -R -f -a . || true") }
