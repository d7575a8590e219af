package machine

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// disks are the machine's disks, in the order of /dev/vda, /dev/vdb and so on. The first has the
// system. Those without a filesystem are blank: raw for tests of raw disks, the others for nodes
// that are prepared.
var disks = []struct {
	name string
	mkfs []string
}{
	{name: "root"},
	{"xfs", []string{"mkfs.xfs", "-q", "-L", "xfs"}},
	{"ext4", []string{"mkfs.ext4", "-q", "-L", "ext4", "-O", "quota", "-E", "quotatype=prjquota"}},
	{"btrfs", []string{"mkfs.btrfs", "-q", "-L", "btrfs"}},
	{name: "raw"},
	{name: "plain-xfs"}, {name: "plain-ext4"}, {name: "leg-a"}, {name: "leg-b"}, {name: "luks"},
}

const diskBytes = 2 << 30 // sparse

// writeDisks makes the disks: the system's is a copy of the image with the files of this machine.
func (m *Machine) writeDisks(ctx context.Context, image string, files []file) error {
	for _, name := range []string{"vmlinuz", "initrd", "root.img"} {
		if err := run(ctx, "cp", "--sparse=always", filepath.Join(image, name), m.file(name)); err != nil {
			return err
		}
	}
	for _, disk := range disks[1:] {
		path := m.file(disk.name + ".img")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		if err := os.Truncate(path, diskBytes); err != nil {
			return err
		}
		if disk.mkfs == nil {
			continue
		}
		if err := run(ctx, disk.mkfs[0], append(disk.mkfs[1:], path)...); err != nil {
			return err
		}
	}
	return m.insideRoot(ctx, func(root string) error { return writeFiles(ctx, root, files) })
}

// insideRoot mounts the system's disk and calls f with its path. The machine is off.
func (m *Machine) insideRoot(ctx context.Context, f func(root string) error) (err error) {
	root := m.file("root")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := run(ctx, "mount", "-o", "loop", m.file("root.img"), root); err != nil {
		return err
	}
	defer func() {
		if e := run(context.WithoutCancel(ctx), "umount", "-R", root); err == nil {
			err = e
		}
	}()
	return f(root)
}

// writeFiles writes files into the system and labels them as its policy has it.
func writeFiles(ctx context.Context, root string, files []file) error {
	args := []string{root, "setfiles", "-F", "/etc/selinux/default/contexts/files/file_contexts"}
	for _, f := range files {
		path := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, os.FileMode(f.mode)); err != nil {
			return err
		}
		args = append(args, filepath.Dir(f.path), f.path)
		if name, unit := strings.CutPrefix(f.path, "/etc/systemd/system/"); unit &&
			strings.Contains(string(f.data), "[Install]") {
			if err := run(ctx, "chroot", root, "systemctl", "-q", "enable", name); err != nil {
				return err
			}
		}
	}
	if err := run(ctx, "mount", "-t", "proc", "proc", filepath.Join(root, "proc")); err != nil {
		return err
	}
	return run(ctx, "chroot", args...)
}

// load imports an archive of images into the machine's containerd.
func (m *Machine) load(ctx context.Context, archive io.Reader) error {
	_, err := m.feed(ctx, archive, "ctr -n k8s.io images import -")
	return err
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out))
	}
	return nil
}
