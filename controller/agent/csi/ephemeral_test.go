package csi_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// again is the driver's next process: the same pools, none of them opened.
func (d *driver) again(t *testing.T) *driver {
	t.Helper()
	next := &driver{kubelet: d.kubelet, config: d.config}
	for _, before := range d.pools {
		before.Close()
		p, err := volume.New(volume.Config{Name: before.Name(), Path: before.Path()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		next.pools = append(next.pools, p)
	}
	next.config.Pools = pools(t, next.pools...)
	next.serve(t, filepath.Join(t.TempDir(), "csi.sock"))
	return next
}

// inline makes an inline volume of the pod, as publishing it does.
func inline(t *testing.T, p *volume.Pool, name, pod string) {
	t.Helper()
	if _, err := p.Create(volume.Spec{Name: name, Bytes: 1 << 20, Ephemeral: true, Owner: record.Owner{Namespace: "ns", Name: "web", UID: pod}}); err != nil {
		t.Fatal(err)
	}
}

// ends unpublishes what is mounted nowhere any more.
func (d *driver) ends(t *testing.T, name, target string, code codes.Code) {
	t.Helper()
	_, err := d.NodeUnpublishVolume(t.Context(), &proto.NodeUnpublishVolumeRequest{VolumeId: name, TargetPath: target})
	if wants(t, err, code, ""); t.Failed() {
		t.Fatalf("unpublish %s", name)
	}
}

// has fails the test unless the pool has the volume, or has it not.
func has(t *testing.T, p *volume.Pool, name string, want bool) {
	t.Helper()
	if _, err := p.Get(name); (err == nil) != want || err != nil && !errors.Is(err, volume.ErrNotFound) {
		t.Errorf("%s in pool %s: %v, want it there: %v", name, p.Name(), err, want)
	}
}

// Sockets are served before the pools are open. What may be a pod's own volume
// waits until the records are known, and nothing else does.
func TestUnpublishBeforeOpen(t *testing.T) {
	d := newDriver(t)
	d.create(t, "pvc-"+uid, nil)
	d.create(t, "csi-claimed", nil)
	inline(t, d.pools[0], "csi-first", "1")
	inline(t, d.pools[1], "csi-second", "2")

	d = d.again(t)
	d.ends(t, "pvc-"+uid, d.podTarget("pvc-"+uid), codes.OK)
	d.ends(t, "csi-claimed", d.podTarget("csi-claimed"), codes.OK)
	d.ends(t, "csi-first", d.podTarget("scratch"), codes.Unavailable)
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.Unavailable)
	if err := d.pools[0].Open(); err != nil {
		t.Fatal(err)
	}
	d.ends(t, "csi-first", d.podTarget("scratch"), codes.OK)
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.Unavailable)
	d.ends(t, "csi-claimed", d.podTarget("scratch"), codes.OK) // its record is known by now
	if err := d.pools[1].Open(); err != nil {
		t.Fatal(err)
	}
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.OK)
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.OK)
	has(t, d.pools[0], "pvc-"+uid, true)
	has(t, d.pools[0], "csi-claimed", true)
	has(t, d.pools[0], "csi-first", false)
	has(t, d.pools[1], "csi-second", false)
}

// A pool that cannot be opened keeps no pod from ending whose volume is in
// another, or which the collector finds later.
func TestUnpublishBesideABrokenPool(t *testing.T) {
	d := newDriver(t)
	inline(t, d.pools[0], "csi-first", "1")
	inline(t, d.pools[1], "csi-second", "2")
	broken, away := d.pools[1].Path(), d.pools[1].Path()+"-away"

	d = d.again(t)
	if err := errors.Join(os.Rename(broken, away), os.WriteFile(broken, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.pools {
		_ = p.Open()
	}
	if err := d.pools[1].Ready(); !errors.Is(err, volume.ErrNotReady) || errors.Is(err, fault.ErrNotOpened) {
		t.Fatal(err)
	}
	d.ends(t, "csi-first", d.podTarget("scratch"), codes.OK)
	d.ends(t, "csi-first", d.podTarget("scratch"), codes.OK)
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.OK)
	has(t, d.pools[0], "csi-first", false)
	if err := errors.Join(os.Remove(broken), os.Rename(away, broken)); err != nil {
		t.Fatal(err)
	}
	has(t, d.pools[1], "csi-second", true)
}

// Once its record was read, a pod's own volume waits for its pool.
func TestUnpublishWaitsForItsPool(t *testing.T) {
	d := newDriver(t)
	inline(t, d.pools[1], "csi-second", "2")
	d.create(t, "v", func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = "fast" })
	broken, away := d.pools[1].Path(), d.pools[1].Path()+"-away"
	if err := errors.Join(os.Rename(broken, away), os.WriteFile(broken, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d.ends(t, "v", d.podTarget("v"), codes.OK)
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.Unavailable)
	if err := errors.Join(os.Remove(broken), os.Rename(away, broken)); err != nil {
		t.Fatal(err)
	}
	d.ends(t, "csi-second", d.podTarget("scratch"), codes.OK)
	has(t, d.pools[1], "csi-second", false)
	has(t, d.pools[1], "v", true)
}

// A driver that serves notices soon that the pod of an inline volume is gone.
func TestServeCollects(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	inline(t, d.pools[0], "csi-first", "1")
	inline(t, d.pools[1], "csi-second", "2")
	if err := os.MkdirAll(filepath.Join(d.kubelet, "pods/1/volumes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		lives, err := d.pools[0].Get("csi-first")
		gone, err2 := d.pools[1].Get("csi-second")
		if err := errors.Join(err, err2); err != nil || lives.Orphan.Why != "" {
			t.Fatalf("%+v, %v", lives, err)
		}
		if gone.Orphan.Why != "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody noticed")
		}
	}
}

// The setting refuses new inline volumes, with words for the event on the pod, and makes no directory.
func TestInlineVolumesAreLimited(t *testing.T) {
	d := newDriver(t)
	limits, err := contract.ParseInlineVolumes("fast=1Gi")
	if err != nil {
		t.Fatal(err)
	}
	d.config.Inline = limits
	d = d.again(t)
	for _, p := range d.pools {
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ pool, size, want string }{
		{"legacy", "1Mi", "pool legacy offers no inline volumes"}, {"fast", "2Gi", "1Gi at most"}, {"", "2Gi", "pool fast"}} {
		at := d.podTarget("scratch")
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		attributes := map[string]string{"csi.storage.k8s.io/ephemeral": "true", "size": row.size}
		if row.pool != "" {
			attributes["storagePool"] = row.pool
		}
		_, err := d.NodePublishVolume(t.Context(), &proto.NodePublishVolumeRequest{VolumeId: "csi-0a1b", TargetPath: at,
			VolumeCapability: withMode(1), VolumeContext: attributes})
		wants(t, err, codes.PermissionDenied, row.want)
		has(t, d.pools[0], "csi-0a1b", false)
		has(t, d.pools[1], "csi-0a1b", false)
	}
}
