//go:build disk

package csi_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// older is a volume of an older driver: a directory in the pool fast, and
// nothing that says so but its PV.
func (d *driver) older(t *testing.T, name string) *proto.Volume {
	t.Helper()
	if err := os.Mkdir(filepath.Join(d.pools[1].Path(), name), 0o755); err != nil {
		t.Fatal(err)
	}
	return &proto.Volume{VolumeId: name, VolumeContext: map[string]string{"storagePool": "fast",
		"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "default", "csi.storage.k8s.io/pv/name": name}}
}

func TestDiskOlderVolumeIsAdopted(t *testing.T) {
	d := newRootDriver(t)
	d.config.Adopt = true
	d.serve(t, filepath.Join(t.TempDir(), "again.sock"))
	v := d.older(t, "pvc-"+uid)

	wants(t, d.publish(t, v, "none/pod-1", nil), codes.FailedPrecondition, "")
	if _, err := d.pools[1].Get(v.VolumeId); err == nil {
		t.Error("a request that was refused left a record")
	}
	// Who only asks changes nothing.
	_, err := d.ControllerGetVolume(t.Context(), &proto.ControllerGetVolumeRequest{VolumeId: v.VolumeId})
	_, err2 := d.ValidateVolumeCapabilities(t.Context(), &proto.ValidateVolumeCapabilitiesRequest{
		VolumeId: v.VolumeId, VolumeCapabilities: []*proto.VolumeCapability{mounted()}})
	_, err3 := d.NodeGetVolumeStats(t.Context(), &proto.NodeGetVolumeStatsRequest{VolumeId: v.VolumeId, VolumePath: "/none"})
	if _, kept := d.pools[1].Cached(v.VolumeId); err != nil || err2 != nil || err3 == nil || kept {
		t.Errorf("asked: %v, %v, %v; recorded: %v", err, err2, err3, kept)
	}
	if err := d.publish(t, v, "pod-1", nil); err != nil {
		t.Fatal(err)
	}
	got, err := d.pools[1].Get(v.VolumeId)
	if err != nil || !got.Adopted || got.Bytes != 0 || got.Owner.Name != "data" || got.Owner.UID != uid || got.PV != v.VolumeId {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(d.unpublish(t, v.VolumeId, "pod-1"), d.delete(t, v.VolumeId)); err != nil {
		t.Fatal(err)
	}
	// One that was never published here goes too.
	d.older(t, v.VolumeId)
	if err := d.delete(t, v.VolumeId); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(d.pools[1].Path(), v.VolumeId)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("deleted, and still there: %v", err)
	}
}

// A directory with a name of its own choice is nobody's to ask for, and where
// the provisioner sees PVs it is the one that adopts.
func TestDiskOthersDirectoryIsLeft(t *testing.T) {
	for _, row := range []struct {
		adopt bool
		name  string
	}{{true, "photos"}, {false, "pvc-" + uid}} {
		d := newRootDriver(t)
		d.config.Adopt = row.adopt
		d.serve(t, filepath.Join(t.TempDir(), "again.sock"))
		v := d.older(t, row.name)
		wants(t, d.publish(t, v, "pod-1", nil), codes.NotFound, "")
		if err := d.delete(t, v.VolumeId); err == nil {
			t.Errorf("%+v: deleted", row)
		}
		if _, err := os.Stat(filepath.Join(d.pools[1].Path(), row.name)); err != nil {
			t.Error(err)
		}
	}
}
