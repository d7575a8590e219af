package csi_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
)

func from(id string) *proto.VolumeContentSource {
	return &proto.VolumeContentSource{Type: &proto.VolumeContentSource_Volume{
		Volume: &proto.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}

// aCopy asks for a copy of a volume, by bytes: not every filesystem has reflinks.
func aCopy(name, of string) *proto.CreateVolumeRequest {
	r := goodCreate()
	r.Name, r.Parameters["csi.storage.k8s.io/pv/name"], r.Parameters["copy"] = name, name, "allowed"
	r.VolumeContentSource = from(of)
	return r
}

const copyUID = "1b1c2d3e-4f50-6172-8394-a5b6c7d8e9f1"

func TestClone(t *testing.T) {
	d := newDriver(t)
	source := d.create(t, "pvc-"+uid, nil).VolumeId
	if err := os.WriteFile(filepath.Join(d.pools[0].Path(), source, "data"), []byte("kept"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []string{"legacy", "fast"} { // the second by another pool of the node
		name := "pvc-" + copyUID[:35] + map[string]string{"legacy": "1", "fast": "2"}[pool]
		req := aCopy(name, source)
		req.Parameters["storagePool"] = pool
		res, err := d.CreateVolume(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Volume.GetContentSource().GetVolume().GetVolumeId(); got != source || res.Volume.CapacityBytes != 1<<20 {
			t.Errorf("a copy of %q with %d bytes", got, res.Volume.CapacityBytes)
		}
		at := map[string]int{"legacy": 0, "fast": 1}[pool]
		if data, err := os.ReadFile(filepath.Join(d.pools[at].Path(), name, "data")); err != nil || string(data) != "kept" {
			t.Errorf("%q, %v", data, err)
		}
	}
	other := d.create(t, "pvc-"+uid[:35]+"9", nil).VolumeId
	for name, row := range map[string]struct {
		spoil func(*proto.CreateVolumeRequest)
		code  codes.Code
		words string
	}{
		"another source": {func(r *proto.CreateVolumeRequest) { r.VolumeContentSource = from(other) }, codes.AlreadyExists, ""},
		"none":           {func(r *proto.CreateVolumeRequest) { r.VolumeContentSource = nil }, codes.AlreadyExists, ""},
		"another size":   {func(r *proto.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 2 << 20 }, codes.AlreadyExists, ""},
		"smaller":        {func(r *proto.CreateVolumeRequest) { r.Name, r.CapacityRange.RequiredBytes = "new", 1<<20-1 }, codes.OutOfRange, "cannot be smaller"},
		"no more than": {func(r *proto.CreateVolumeRequest) {
			r.Name, r.CapacityRange = "new", &proto.CapacityRange{LimitBytes: 5}
		}, codes.OutOfRange, "1048576"},
		"missing": {func(r *proto.CreateVolumeRequest) {
			r.Name, r.VolumeContentSource, r.AccessibilityRequirements = "new", from("none"), nil
		}, codes.NotFound, `no volume "none"`},
		"elsewhere":           {func(r *proto.CreateVolumeRequest) { r.Name, r.VolumeContentSource = "new", from("none") }, codes.ResourceExhausted, "node node-01 has no volume"},
		"misspelt permission": {func(r *proto.CreateVolumeRequest) { r.Name, r.Parameters["copy"] = "new", "yes" }, codes.InvalidArgument, "it must be allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			req := aCopy("pvc-"+copyUID, source)
			row.spoil(req)
			_, err := d.CreateVolume(t.Context(), req)
			wants(t, err, row.code, row.words)
		})
	}
	// An answer that was lost is given again, also once the source has grown, or is gone.
	if _, err := d.ControllerExpandVolume(t.Context(), &proto.ControllerExpandVolumeRequest{VolumeId: source,
		CapacityRange: &proto.CapacityRange{RequiredBytes: 3 << 20}}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []*proto.CapacityRange{aCopy("", "").CapacityRange, nil} {
		req := aCopy("pvc-"+copyUID, source)
		req.CapacityRange = size
		if res, err := d.CreateVolume(t.Context(), req); err != nil || res.Volume.CapacityBytes != 1<<20 {
			t.Errorf("with a size of %v: %v, %v", size, res, err)
		}
	}
	if _, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: source}); err != nil {
		t.Fatal(err)
	}
	if res, err := d.CreateVolume(t.Context(), aCopy("pvc-"+copyUID, source)); err != nil || res.Volume.GetContentSource() == nil {
		t.Errorf("%v, %v", res, err)
	}
}

// Without a size a copy is as large as its source.
func TestCloneWithoutSize(t *testing.T) {
	d := newDriver(t)
	source := d.create(t, "pvc-"+uid, nil).VolumeId
	for range 2 {
		req := aCopy("pvc-"+copyUID, source)
		req.CapacityRange = nil
		if res, err := d.CreateVolume(t.Context(), req); err != nil || res.Volume.CapacityBytes != 1<<20 {
			t.Errorf("%v, %v", res, err)
		}
	}
}

// A copy that takes long is under way, and a pod of its source comes first.
func TestCloneTakesLong(t *testing.T) {
	d := newDriverOf(t, func(c *volume.Config) { c.CopyRate = 1 << 20 })
	source := d.create(t, "pvc-"+uid, nil).VolumeId
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := os.WriteFile(filepath.Join(d.pools[0].Path(), source, name), make([]byte, 1<<20), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	req := aCopy("pvc-"+copyUID, source)
	req.Parameters["storagePool"] = "fast"
	_, err := d.CreateVolume(t.Context(), req)
	wants(t, err, codes.Aborted, "so far")
	_, err = d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: source})
	wants(t, err, codes.FailedPrecondition, "")
	for end := time.Now().Add(time.Minute); err != nil; time.Sleep(100 * time.Millisecond) {
		if _, err = d.CreateVolume(t.Context(), req); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A caller that knows no claims, such as csi-sanity, copies by name. A claim gets no copy of a volume
// of which no claim is known.
func TestCloneWithoutClaims(t *testing.T) {
	d := newDriver(t)
	source := d.create(t, "source", nil).VolumeId
	if _, err := d.CreateVolume(t.Context(), aCopy("plain", source)); err != nil {
		t.Error(err)
	}
	_, err := d.CreateVolume(t.Context(), aCopy("pvc-"+copyUID, source))
	wants(t, err, codes.FailedPrecondition, "no claim is recorded for it")
}
