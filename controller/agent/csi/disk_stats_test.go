//go:build disk

package csi_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// A volume's own numbers, and its limit: on btrfs, whose statfs tells neither.
func TestDiskLimitedVolume(t *testing.T) {
	disk := btrfs(t)
	t.Setenv("TMPDIR", disk)
	t.Run("on btrfs", func(t *testing.T) { // with temporary directories there
		d := newRootDriver(t)
		v := d.create(t, "v", func(r *proto.CreateVolumeRequest) {
			r.CapacityRange = &proto.CapacityRange{RequiredBytes: 4 << 20}
			r.Parameters["quota"] = "required"
		})
		wants(t, d.publish(t, v, "a", nil), codes.OK, "")
		err := os.WriteFile(filepath.Join(d.target("a"), "file"), make([]byte, 8<<20), 0o600)
		if !errors.Is(err, unix.EDQUOT) {
			t.Errorf("written beyond the limit: %v", err)
		}
		stats, err := d.NodeGetVolumeStats(t.Context(), &proto.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: d.target("a")})
		if err != nil || len(stats.Usage) != 1 {
			t.Fatal(stats, err)
		}
		if u := stats.Usage[0]; u.Total != 4<<20 || u.Used < 2<<20 || u.Used > u.Total || u.Available > u.Total-u.Used {
			t.Errorf("%+v", u)
		}
		wants(t, d.unpublish(t, "v", "a"), codes.OK, "")
		wants(t, d.delete(t, "v"), codes.OK, "")
	})
}

// btrfs is a disk with simple quota.
func btrfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mountDisk(t, "btrfs", dir)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := quota.Enable(fd); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mountDisk mounts a new filesystem of the kind at dir until the test ends.
func mountDisk(t *testing.T, kind, dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 320<<20)); err != nil {
		t.Fatal(err)
	}
	for _, tool := range [][]string{{"mkfs." + kind, "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(tool[0], tool[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", tool, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}
