//go:build disk

package csi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// A PV with the handle of another PV's volume gets it at no target of kubelet,
// whatever order they come in; only kubelet's own form of a target is read.
func TestDiskPublishForItsPV(t *testing.T) {
	d := newRootDriver(t)
	named := d.create(t, "named", func(r *proto.CreateVolumeRequest) { r.Parameters["csi.storage.k8s.io/pv/name"] = "its-pv" })
	silent := func(r *proto.CreateVolumeRequest) { delete(r.Parameters, "csi.storage.k8s.io/pv/name") }
	generated := d.create(t, "pvc-"+uid, silent)
	unknown := d.create(t, "unknown", silent)
	const form = "a-pod/volumes/kubernetes.io~csi/"
	for _, row := range []struct {
		v      *proto.Volume
		target string
		code   codes.Code
		words  string
	}{
		{named, form + "other/mount", codes.FailedPrecondition, `belongs to PV "its-pv", and PV "other"`},
		{named, form + "its-pv/mount", codes.OK, ""},
		{named, form + "other/mount", codes.FailedPrecondition, "volume of another PV"},
		{generated, form + "mine/mount", codes.FailedPrecondition, `belongs to PV "pvc-` + uid + `"`},
		{generated, form + "pvc-" + uid + "/mount", codes.OK, ""},
		{unknown, form + "any/mount", codes.OK, ""},
		// Not of the form: nobody says which PV it is.
		{named, "other", codes.OK, ""},
		{named, form + "other/globalmount", codes.OK, ""},
		{named, form + "more/other/mount", codes.OK, ""},
		{named, "a-pod/volumes/kubernetes.io~nfs/other/mount", codes.OK, ""},
	} {
		if err := os.MkdirAll(filepath.Dir(d.target(row.target)), 0o750); err != nil {
			t.Fatal(err)
		}
		before := len(d.mounts(t))
		wants(t, d.publish(t, row.v, row.target, nil), row.code, row.words)
		if more := len(d.mounts(t)) - before; (more == 1) != (row.code == codes.OK) {
			t.Errorf("%s at %s: %d mounts more", row.v.VolumeId, row.target, more)
		}
		if row.code == codes.OK {
			wants(t, d.unpublish(t, row.v.VolumeId, row.target), codes.OK, "")
		}
	}
}

// A pod's own volume is named by the pod, in the place of a PV.
func TestDiskEphemeralAtATargetOfKubelet(t *testing.T) {
	d := newRootDriver(t)
	if err := os.MkdirAll(filepath.Dir(d.podTarget("scratch")), 0o750); err != nil {
		t.Fatal(err)
	}
	inline := func(r *proto.NodePublishVolumeRequest) {
		r.VolumeId, r.TargetPath = "csi-0a1b", d.podTarget("scratch")
		r.VolumeContext = map[string]string{"csi.storage.k8s.io/ephemeral": "true"}
	}
	for range 2 {
		wants(t, d.publish(t, nil, "", inline), codes.OK, "")
	}
	wants(t, d.unpublish(t, "csi-0a1b", "a-pod/volumes/kubernetes.io~csi/scratch/mount"), codes.OK, "")
}

// A disk that met an error and refuses every request keeps no pod from ending.
func TestDiskUnpublishAfterShutdown(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newRootDriver(t)
			disk, pool := t.TempDir(), d.pools[0].Path()
			mountDisk(t, kind, disk)
			if out, err := exec.Command("cp", "-a", pool+"/.", disk).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := unix.Mount(disk, pool, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(pool, unix.MNT_DETACH) })
			v := d.create(t, "v", nil)
			if got := v.VolumeContext["storagePool"]; got != d.pools[0].Name() {
				t.Fatalf("the volume is in pool %q", got)
			}
			wants(t, d.publish(t, v, "a", nil), codes.OK, "")
			f, err := os.Open(disk)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			// EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN without a flush of the journal.
			if err := unix.IoctlSetPointerInt(int(f.Fd()), 0x8004587d, 2); err != nil {
				t.Fatal(err)
			}
			if d.pools[0].Ready() == nil {
				t.Error("the pool is ready; it proves nothing")
			}
			for range 2 {
				wants(t, d.unpublish(t, "v", "a"), codes.OK, "")
			}
			if left := d.mounts(t); len(left) > 0 {
				t.Errorf("left mounted: %+v", left)
			}
		})
	}
}

// The directory of a published volume is moved aside, and the pod ends. What is mounted elsewhere,
// or of another filesystem, is left.
func TestDiskUnpublishAfterAMove(t *testing.T) {
	d := newRootDriver(t)
	const form = "a-pod/volumes/kubernetes.io~csi/"
	other := t.TempDir()
	mountDisk(t, "ext4", other)
	for what, row := range map[string]struct {
		target string
		mounts string // another directory that is mounted at the target; "" for the volume
		code   codes.Code
	}{
		"the kubelet's form":                     {form + "pv-moved/mount", "", codes.OK},
		"another form":                           {"moved", "", codes.FailedPrecondition},
		"the kubelet's form, another filesystem": {form + "pv-other/mount", other, codes.FailedPrecondition},
	} {
		if err := os.MkdirAll(filepath.Dir(d.target(row.target)), 0o750); err != nil {
			t.Fatal(err)
		}
		name := "pvc-moved"
		v := d.create(t, name, func(r *proto.CreateVolumeRequest) { delete(r.Parameters, "csi.storage.k8s.io/pv/name") })
		path := filepath.Join(d.pools[0].Path(), name)
		if row.mounts == "" {
			wants(t, d.publish(t, v, row.target, nil), codes.OK, "")
			if err := os.Rename(path, path+".before"); err != nil {
				t.Fatal(err)
			}
		} else if err := os.MkdirAll(d.target(row.target), 0o750); err != nil {
			t.Fatal(err)
		} else if err := unix.Mount(row.mounts, d.target(row.target), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		wants(t, d.unpublish(t, name, row.target), row.code, "")
		if row.code != codes.OK {
			if err := unix.Unmount(d.target(row.target), 0); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if row.mounts == "" {
			if err := os.Rename(path+".before", path); err != nil {
				t.Fatal(err)
			}
		}
		wants(t, d.delete(t, name), codes.OK, "")
	}
}
