package csi_test

import (
	"path/filepath"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
)

// Copies of a volume may wait until it is unmounted: the driver reports that, and no call that failed.
func TestUnpublishedIsReported(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", nil)
	var names []string
	d.config.Unpublished = func(volume string) { names = append(names, volume) }
	d.serve(t, filepath.Join(t.TempDir(), "csi.sock"))
	for _, target := range []string{"/etc", d.target("a")} {
		_, _ = d.NodeUnpublishVolume(t.Context(), &proto.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: target})
	}
	if len(names) != 1 || names[0] != "v" {
		t.Errorf("reported %q, want v once", names)
	}
}
