//go:build disk

package csi_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// newRootDriver serves as newDriver does, and unmounts what a test left. A
// test of mounts never passes without mounts.
func newRootDriver(t *testing.T) *driver {
	t.Helper()
	return newRootDriverOf(t, func(*volume.Config) {})
}

// newRootDriverOf is newRootDriver with pools that are configured otherwise.
func newRootDriverOf(t *testing.T, configure func(*volume.Config)) *driver {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	d := newDriverOf(t, configure)
	t.Cleanup(func() {
		for _, i := range d.mounts(t) {
			_ = unix.Unmount(i.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	})
	return d
}

// mounts are those below the kubelet's directory.
func (d *driver) mounts(t *testing.T) (below []mount.Info) {
	t.Helper()
	all, err := mount.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if strings.HasPrefix(i.Point, d.kubelet+"/") {
			below = append(below, i)
		}
	}
	return below
}

func (d *driver) publish(t *testing.T, v *proto.Volume, target string, spoil func(*proto.NodePublishVolumeRequest)) error {
	t.Helper()
	req := d.goodPublish(v, target)
	if spoil != nil {
		spoil(req)
	}
	_, err := d.NodePublishVolume(t.Context(), req)
	return err
}

func (d *driver) unpublish(t *testing.T, id, target string) error {
	t.Helper()
	_, err := d.NodeUnpublishVolume(t.Context(), &proto.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: d.target(target)})
	return err
}

func (d *driver) delete(t *testing.T, id string) error {
	t.Helper()
	_, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: id})
	return err
}

func TestDiskPublish(t *testing.T) {
	d := newRootDriver(t)
	v := d.create(t, "v", nil)
	for range 3 {
		wants(t, d.publish(t, v, "a", nil), codes.OK, "")
	}
	if n := len(d.mounts(t)); n != 1 {
		t.Fatalf("%d mounts", n)
	}
	if err := os.WriteFile(filepath.Join(d.target("a"), "file"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := d.pools[0].Get("v"); err != nil || r.State != record.Bound {
		t.Errorf("used, and recorded as %+v, %v", r, err)
	}
	// An older PV names no pool.
	old := func(r *proto.NodePublishVolumeRequest) { r.VolumeContext = nil }
	wants(t, d.publish(t, v, "b", old), codes.OK, "")
	before := d.state(t)
	wants(t, d.delete(t, "v"), codes.FailedPrecondition, "in use")
	d.unchanged(t, before)

	stats, err := d.NodeGetVolumeStats(t.Context(), &proto.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: d.target("a")})
	if err != nil || len(stats.Usage) == 0 || stats.Usage[0].Unit != proto.VolumeUsage_BYTES || stats.Usage[0].Total <= 0 {
		t.Errorf("%v, %v", stats, err)
	}
	_, err = d.NodeGetVolumeStats(t.Context(), &proto.NodeGetVolumeStatsRequest{VolumeId: d.create(t, "w", nil).VolumeId, VolumePath: d.target("a")})
	wants(t, err, codes.NotFound, "not published")

	for _, target := range []string{"a", "b", "a"} {
		wants(t, d.unpublish(t, "v", target), codes.OK, "")
		if _, err := os.Lstat(d.target(target)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", target, err)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(d.pools[0].Path(), "v/file")); string(data) != "kept" {
		t.Error("data went with the mount")
	}
	wants(t, d.delete(t, "v"), codes.OK, "")
}

func TestDiskPublishFlags(t *testing.T) {
	d := newRootDriver(t)
	v := d.create(t, "v", nil)
	readonly := func(r *proto.NodePublishVolumeRequest) { r.Readonly = true }
	reader := func(r *proto.NodePublishVolumeRequest) { r.VolumeCapability = withMode(2) }
	flagged := func(r *proto.NodePublishVolumeRequest) {
		r.VolumeCapability.GetMount().MountFlags = []string{"noexec", "nosuid"}
	}
	for name, spoil := range map[string]func(*proto.NodePublishVolumeRequest){"readonly": readonly, "reader": reader} {
		wants(t, d.publish(t, v, name, spoil), codes.OK, "")
		wants(t, d.publish(t, v, name, spoil), codes.OK, "")
		if err := os.WriteFile(filepath.Join(d.target(name), "x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", name, err)
		}
		wants(t, d.publish(t, v, name, nil), codes.FailedPrecondition, "mounted readonly")
	}
	wants(t, d.publish(t, v, "flagged", flagged), codes.OK, "")
	for _, i := range d.mounts(t) {
		if i.Point == d.target("flagged") && (!strings.Contains(i.Options, "noexec") || !strings.Contains(i.Options, "nosuid")) {
			t.Errorf("%+v", i)
		}
	}
	wants(t, d.publish(t, d.create(t, "w", nil), "flagged", nil), codes.FailedPrecondition, "target is taken")
	wants(t, d.unpublish(t, "w", "flagged"), codes.FailedPrecondition, "target is taken")
	if n := len(d.mounts(t)); n != 3 {
		t.Errorf("%d mounts", n)
	}
}

func TestDiskSingleWriter(t *testing.T) {
	d := newRootDriver(t)
	v := d.create(t, "v", nil)
	alone := func(r *proto.NodePublishVolumeRequest) { r.VolumeCapability = withMode(6) }
	many := func(r *proto.NodePublishVolumeRequest) { r.VolumeCapability = withMode(7) }
	wants(t, d.publish(t, v, "a", alone), codes.OK, "")
	wants(t, d.publish(t, v, "a", alone), codes.OK, "")
	wants(t, d.publish(t, v, "b", alone), codes.FailedPrecondition, "single writer")
	if _, err := os.Lstat(d.target("b")); err == nil {
		t.Error("the refused target was made")
	}
	wants(t, d.unpublish(t, "v", "a"), codes.OK, "")
	wants(t, d.publish(t, v, "b", many), codes.OK, "")
	wants(t, d.publish(t, v, "c", many), codes.OK, "")
	wants(t, d.publish(t, v, "d", alone), codes.FailedPrecondition, "single writer")
}

// A kubelet that restarts publishes again for the pods that run, while the
// mounts that it made of subPaths are still there.
func TestDiskSingleWriterSubPath(t *testing.T) {
	d := newRootDriver(t)
	v := d.create(t, "v", nil)
	alone := func(r *proto.NodePublishVolumeRequest) { r.VolumeCapability = withMode(6) }
	const target, again = "42/volumes/kubernetes.io~csi/v/mount", "43/volumes/kubernetes.io~csi/v/mount"
	for _, of := range []string{target, again, "42/other/v"} {
		if err := os.MkdirAll(filepath.Dir(d.target(of)), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	subpath := func(pod string) {
		t.Helper()
		sub, at := filepath.Join(d.pools[0].Path(), "v/sub"), d.target(pod+"/volume-subpaths/v/main/0")
		for _, dir := range []string{sub, at} {
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Mount(sub, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, d.publish(t, v, target, alone), codes.OK, "")
	subpath("42")
	wants(t, d.publish(t, v, target, alone), codes.OK, "")
	wants(t, d.publish(t, v, again, alone), codes.FailedPrecondition, "single writer")
	// A second target is one too many, whatever it is below.
	wants(t, d.publish(t, v, "42/other/v", alone), codes.FailedPrecondition, "single writer")
	wants(t, d.unpublish(t, "v", target), codes.OK, "")
	wants(t, d.publish(t, v, again, alone), codes.FailedPrecondition, "volume-subpaths")
	wants(t, d.publish(t, v, target, alone), codes.OK, "")
	subpath("430")
	wants(t, d.publish(t, v, target, alone), codes.FailedPrecondition, "pods/430/")
}

// Where the kubelet's directory is reached by a link, mountinfo has the path
// without it.
func TestDiskSingleWriterLinkedKubelet(t *testing.T) {
	d := newRootDriver(t)
	link := d.kubelet + "-link"
	if err := os.Symlink(d.kubelet, link); err != nil {
		t.Fatal(err)
	}
	d.config.KubeletDir = link
	d.serve(t, filepath.Join(t.TempDir(), "csi.sock"))
	v := d.create(t, "v", nil)
	const target = "pods/42/volumes/kubernetes.io~csi/v/mount"
	sub := filepath.Join(d.kubelet, "pods/42/volume-subpaths/v/main/0")
	for _, dir := range []string{filepath.Join(d.kubelet, filepath.Dir(target)), sub} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	alone := func(r *proto.NodePublishVolumeRequest) {
		r.VolumeCapability, r.TargetPath = withMode(6), filepath.Join(link, target)
	}
	wants(t, d.publish(t, v, "", alone), codes.OK, "")
	if err := unix.Mount(filepath.Join(d.kubelet, target), sub, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	wants(t, d.publish(t, v, "", alone), codes.OK, "")
}

func TestDiskEphemeral(t *testing.T) {
	d := newRootDriver(t)
	inline := func(r *proto.NodePublishVolumeRequest) {
		r.VolumeId = "csi-0a1b"
		r.VolumeContext = map[string]string{"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.name": "web",
			"csi.storage.k8s.io/pod.namespace": "default", "csi.storage.k8s.io/pod.uid": "42", "size": "3Mi", "storagePool": "fast"}
	}
	for range 2 {
		wants(t, d.publish(t, nil, "a", inline), codes.OK, "")
	}
	v, err := d.pools[1].Get("csi-0a1b")
	if err != nil || !v.Ephemeral || v.Bytes != 3<<20 || v.Owner != (record.Owner{Namespace: "default", Name: "web", UID: "42"}) {
		t.Fatalf("%+v, %v", v, err)
	}
	os.WriteFile(filepath.Join(d.target("a"), "file"), nil, 0o600)
	for range 2 {
		wants(t, d.unpublish(t, "csi-0a1b", "a"), codes.OK, "")
	}
	if _, err := d.pools[1].Get("csi-0a1b"); !errors.Is(err, volume.ErrNotFound) {
		t.Errorf("it outlived its pod: %v", err)
	}
	// The same prefix says nothing: this one is a claim's.
	w := d.create(t, "csi-claim", nil)
	wants(t, d.publish(t, w, "b", nil), codes.OK, "")
	wants(t, d.unpublish(t, "csi-claim", "b"), codes.OK, "")
	if _, err := d.pools[0].Get("csi-claim"); err != nil {
		t.Errorf("a claim's volume went with its pod: %v", err)
	}
	// Where the CSIDriver has no podInfoOnMount, the target still says which pod.
	at := d.podTarget("scratch")
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		t.Fatal(err)
	}
	wants(t, d.publish(t, nil, "", func(r *proto.NodePublishVolumeRequest) {
		inline(r)
		r.VolumeId, r.TargetPath, r.VolumeContext = "csi-2c3d", at, map[string]string{"csi.storage.k8s.io/ephemeral": "true"}
	}), codes.OK, "")
	if v, err := d.pools[0].Get("csi-2c3d"); err != nil || v.Owner.UID != "a-pod" {
		t.Errorf("%+v, %v", v, err)
	}
	// One that cannot be mounted leaves nothing.
	wants(t, d.publish(t, w, "taken", nil), codes.OK, "")
	before := d.state(t)
	wants(t, d.publish(t, nil, "taken", inline), codes.FailedPrecondition, "target is taken")
	d.unchanged(t, before)
}
