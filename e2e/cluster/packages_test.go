package cluster

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without dpkg and apt-get, a package is missing only if its programs are.
func TestPackagesElsewhere(t *testing.T) {
	for name, row := range map[string]struct {
		programs string // beside those that packages.sh itself needs
		packages string
		missing  string // "" if none is
	}{
		"all there":        {"gcc systemd-analyze", "gcc libc6-dev systemd", ""},
		"one missing":      {"gcc", "gcc libc6-dev systemd", "systemd"},
		"no compiler":      {"systemd-analyze", "gcc libc6-dev systemd", "gcc libc6-dev"},
		"no headers":       {"gcc=1 systemd-analyze", "gcc libc6-dev systemd", "libc6-dev"},
		"named as program": {"", "id", ""},
		"unknown":          {"", "no-such-package", "no-such-package"},
		"group":            {"busybox", "@vm", "qemu-system-x86"},
		"two groups":       {"", "@vm @machine zstd", "qemu-system-x86 busybox-static mmdebstrap openssh-client zstd e2fsprogs xfsprogs btrfs-progs"},
		"no group":         {"", "id @none", "no group @none; this file has them"},
		"no program":       {"", "e2fsprogs xfsprogs btrfs-progs qemu-system-x86", "e2fsprogs xfsprogs btrfs-progs qemu-system-x86"},
	} {
		bin := t.TempDir()
		for _, program := range []string{"sh", "id", "echo"} {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
				t.Fatal(err)
			}
		}
		// The others end with the status after the sign, 0 without one: this machine may lack the real ones.
		for _, program := range strings.Fields(row.programs) {
			program, status, _ := strings.Cut(program, "=")
			script := "#!/bin/sh\nexit " + cmp.Or(status, "0") + "\n"
			if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("../packages.sh", strings.Fields(row.packages)...)
		cmd.Env = []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		got := string(out)
		if i := strings.LastIndex(got, ": "); i >= 0 {
			got = strings.TrimSpace(got[i+2:])
		}
		if (err == nil) != (row.missing == "") || got != row.missing {
			t.Errorf("%s: %v, %q; want %q to be missing", name, err, out, row.missing)
		}
	}
}
