package mount_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// A node with a pool on its root disk, seen by an agent in a container: the
// pool and the kubelet's directory are bind mounts.
const node = `27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,seclabel,discard
40 27 0:21 / /proc rw - proc proc rw
50 27 254:0 /var/pool /var/pool rw,relatime shared:1 master:2 propagate_from:3 - ext4 /dev/vda rw
51 27 254:0 /var/lib/kubelet /var/lib/kubelet rw shared:1 - ext4 /dev/vda rw
`

func parse(t *testing.T, text string) []mount.Info {
	t.Helper()
	all, err := mount.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestParse(t *testing.T) {
	all := parse(t, node+`60 51 8:17 /a\040b\134c /mnt/x\011y\012\043 ro,nosuid - fuse.sshfs user@host:/x\040y rw,user_id=0
61 51 8:17 /gone//deleted /mnt/z rw - xfs /dev/sdb1
62 51 8:17 / /mnt/bad\9 rw - xfs /dev/sdb1 rw
`)
	if len(all) != 7 {
		t.Fatalf("%d mounts", len(all))
	}
	want := mount.Info{ID: 50, Parent: 27, Major: 254, Root: "/var/pool", Point: "/var/pool",
		Options: "rw,relatime", Super: "rw", Type: "ext4", Source: "/dev/vda", Peers: 1, Master: 2}
	if all[2] != want {
		t.Errorf("got  %+v\nwant %+v", all[2], want)
	}
	want = mount.Info{ID: 60, Parent: 51, Major: 8, Minor: 17, Root: `/a b\c`, Point: "/mnt/x\ty\n#",
		Options: "ro,nosuid", Super: "rw,user_id=0", Type: "fuse.sshfs", Source: "user@host:/x y"}
	if all[4] != want {
		t.Errorf("got  %+v\nwant %+v", all[4], want)
	}
	if all[5].Root != "/gone" || !all[5].Removed || all[5].Super != "" {
		t.Errorf("removed: %+v", all[5])
	}
	if all[6].Point != `/mnt/bad\9` {
		t.Errorf("no escape: %+v", all[6])
	}
	if !all[0].SuperOption("seclabel") || all[0].SuperOption("label") || all[2].SuperOption("seclabel") {
		t.Error("seclabel is on the first mount alone")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"", "27 1 254:0 / / rw", "x 1 254:0 / / rw - ext4 /dev/vda rw", "27 y 254:0 / / rw - ext4 /dev/vda rw",
		"27 1 254 / / rw - ext4 /dev/vda rw", "27 1 254:0 / / - ext4 /dev/vda rw", "27 1 254:0 / / rw - ext4"} {
		if _, err := mount.Parse(strings.NewReader(node + line + "\n")); err == nil || !strings.Contains(err.Error(), "line 5") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestUsers(t *testing.T) {
	const volume = "/var/pool/v"
	for name, c := range map[string]struct {
		more string
		want []string
	}{
		"nothing":                 {"", nil},
		"bind mount of it":        {"60 51 254:0 /var/pool/v /var/lib/kubelet/t rw - ext4 /dev/vda rw\n", []string{"/var/lib/kubelet/t"}},
		"of a directory of it":    {"60 51 254:0 /var/pool/v/sub /t rw - ext4 /dev/vda rw\n", []string{"/t"}},
		"of a neighbour":          {"60 51 254:0 /var/pool/v2 /t rw - ext4 /dev/vda rw\n", nil},
		"of the pool":             {"60 51 254:0 /var/pool /t rw - ext4 /dev/vda rw\n", nil},
		"same root, another disk": {"60 51 8:1 /var/pool/v /t rw - ext4 /dev/sda rw\n", nil},
		"removed":                 {"60 51 254:0 /var/pool/v//deleted /t rw - ext4 /dev/vda rw\n", nil},
		"mounted on it":           {"60 50 0:99 / /var/pool/v rw - tmpfs tmpfs rw\n", []string{volume}},
		"mounted in it":           {"60 50 0:99 / /var/pool/v/a/b rw - tmpfs tmpfs rw\n", []string{"/var/pool/v/a/b"}},
		"mounted beside it":       {"60 50 0:99 / /var/pool/v2 rw - tmpfs tmpfs rw\n", nil},
		// The same directory reached through the root mount, below the bind.
		"mounted in it, another way": {"60 27 0:99 / /var/pool/v/a rw - tmpfs tmpfs rw\n", []string{"/var/pool/v/a"}},
		"mounted in a bind of the pool": {"60 51 254:0 /var/pool /t rw - ext4 /dev/vda rw\n" +
			"61 60 0:99 / /t/v/a rw - tmpfs tmpfs rw\n", []string{"/t/v/a"}},
		"mounted in a neighbour of the same path": {"60 51 8:1 /var/pool /t rw - ext4 /dev/sda rw\n" +
			"61 60 0:99 / /t/v/a rw - tmpfs tmpfs rw\n", nil},
	} {
		got, err := mount.Users(parse(t, node+c.more), 50, volume)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	// The pool on the root mount itself, and one that is a whole disk.
	got, err := mount.Users(parse(t, "27 1 254:0 / / rw - ext4 /dev/vda rw\n60 27 254:0 /p/v /t rw - ext4 /dev/vda rw\n"), 27, "/p/v")
	if err != nil || !slices.Equal(got, []string{"/t"}) {
		t.Errorf("root mount: %q, %v", got, err)
	}
	got, err = mount.Users(parse(t, "28 27 8:1 / /p rw - xfs /dev/sda rw\n60 27 8:1 /v /t rw - xfs /dev/sda rw\n"), 28, "/p/v")
	if err != nil || !slices.Equal(got, []string{"/t"}) {
		t.Errorf("own disk: %q, %v", got, err)
	}
	// Never an answer where the question makes no sense.
	if _, err := mount.Users(parse(t, node), 99, volume); err == nil {
		t.Error("an unknown mount is no error")
	}
	if _, err := mount.Users(parse(t, node), 50, "/elsewhere/v"); err == nil {
		t.Error("a path outside of its mount is no error")
	}
}

func TestSelf(t *testing.T) {
	if _, err := os.Stat("/proc/self/mountinfo"); err != nil {
		t.Fatal(err)
	}
	all, err := mount.Self()
	if err != nil || !slices.ContainsFunc(all, func(i mount.Info) bool { return i.Point == "/proc" && i.Type == "proc" }) {
		t.Errorf("%+v, %v", all, err)
	}
	for _, want := range all {
		if got, ok, err := mount.Find(want.ID); got != want || !ok || err != nil {
			t.Errorf("mount %d is %+v, %v, %v; want %+v", want.ID, got, ok, err, want)
		}
	}
	if got, ok, err := mount.Find(1 << 30); ok || err != nil {
		t.Errorf("an ID that no mount has: %+v, %v", got, err)
	}
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		if _, _, err := mount.Find(1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSelf(b *testing.B) {
	for b.Loop() {
		if _, err := mount.Self(); err != nil {
			b.Fatal(err)
		}
	}
}
