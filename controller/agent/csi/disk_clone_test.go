//go:build disk

package csi_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// A pod of a volume waits a moment for a copy that shares its blocks, rather than have it begin again.
func TestDiskPublishWaitsForACopy(t *testing.T) {
	root, reached, gate := testdisk.Mount(t, "xfs"), make(chan struct{}, 100), make(chan struct{})
	d := newRootDriverOf(t, func(c *volume.Config) {
		c.Path = filepath.Join(root, c.Name)
		c.Step = func(step string) {
			if step == "clone.copy" {
				reached <- struct{}{}
				<-gate
			}
		}
	})
	source := d.create(t, "pvc-"+uid, nil)
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(d.pools[0].Path(), source.VolumeId, name), []byte("kept"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	req := aCopy("pvc-"+copyUID, source.VolumeId)
	copied := make(chan error, 1)
	go func() { _, err := d.CreateVolume(t.Context(), req); copied <- err }()
	<-reached
	published := make(chan error, 1)
	go func() { published <- d.publish(t, source, "a", nil) }()
	select {
	case err := <-published:
		t.Errorf("the pod did not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	close(gate)
	if err := <-published; err != nil {
		t.Error(err)
	}
	if err := <-copied; err != nil {
		t.Errorf("the copy gave way: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(d.pools[0].Path(), req.Name, "b")); err != nil || string(data) != "kept" {
		t.Errorf("%q, %v", data, err)
	}
	wants(t, d.unpublish(t, source.VolumeId, "a"), codes.OK, "")
}
