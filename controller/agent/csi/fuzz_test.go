package csi_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// requests are the calls that take anything from the caller, with a good one
// each.
func requests(d *driver) []struct {
	method       string
	good, answer pb.Message
} {
	v := &proto.Volume{VolumeId: "v", VolumeContext: map[string]string{"storagePool": "legacy"}}
	caps := []*proto.VolumeCapability{mounted()}
	return []struct {
		method       string
		good, answer pb.Message
	}{
		{"Controller/CreateVolume", goodCreate(), &proto.CreateVolumeResponse{}},
		{"Controller/DeleteVolume", &proto.DeleteVolumeRequest{VolumeId: "w"}, &proto.DeleteVolumeResponse{}},
		{"Controller/ListVolumes", &proto.ListVolumesRequest{StartingToken: "after:a", MaxEntries: 1}, &proto.ListVolumesResponse{}},
		{"Controller/GetCapacity", &proto.GetCapacityRequest{VolumeCapabilities: caps, AccessibleTopology: on(node)}, &proto.GetCapacityResponse{}},
		{"Controller/ControllerGetVolume", &proto.ControllerGetVolumeRequest{VolumeId: "v"}, &proto.ControllerGetVolumeResponse{}},
		{"Controller/ControllerExpandVolume", expand("v", 2<<20, 0), &proto.ControllerExpandVolumeResponse{}},
		{"Controller/ValidateVolumeCapabilities", &proto.ValidateVolumeCapabilitiesRequest{VolumeId: "v", VolumeCapabilities: caps},
			&proto.ValidateVolumeCapabilitiesResponse{}},
		{"Node/NodePublishVolume", d.goodPublish(v, "none/t"), &proto.NodePublishVolumeResponse{}},
		{"Node/NodeUnpublishVolume", &proto.NodeUnpublishVolumeRequest{VolumeId: "v", TargetPath: d.target("t")}, &proto.NodeUnpublishVolumeResponse{}},
		{"Node/NodeGetVolumeStats", &proto.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: d.target("t")}, &proto.NodeGetVolumeStatsResponse{}},
	}
}

// Whatever arrives, no handler panics, and none has to blame itself.
func FuzzRequests(f *testing.F) {
	d := newDriver(f)
	beside := d.precious(f)
	for i, r := range requests(d) {
		data, err := pb.Marshal(r.good)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
		f.Add(uint8(i), []byte{})
	}
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		all := requests(d)
		r := all[int(i)%len(all)]
		if pb.Unmarshal(data, r.good) != nil {
			return // a message that is none does not reach us
		}
		d.answers(t, r.method, r.good, r.answer)
		beside(t)
	})
}

// The same for the strings that lead somewhere: the volume's handle, its pool,
// and the path at which it is, or shall be, mounted.
func FuzzHandles(f *testing.F) {
	d := newDriver(f)
	beside := d.precious(f)
	for _, handle := range []string{"v", "pvc-" + uid, "..", "../precious", "/", "a/b", ".hostpath-provisioner", "a\x00", "\xff"} {
		for _, path := range []string{"t", "none/t", "../../precious", "..", "", "link", "link/t", "/etc", "t/.", "t\x00"} {
			f.Add(handle, path, "legacy", handle == "v")
		}
	}
	f.Add("v", "t", "../fast", true)
	f.Fuzz(func(t *testing.T, handle, path, pool string, inline bool) {
		target := d.kubelet + "/pods/" + path
		context := map[string]string{"storagePool": pool}
		if inline {
			context["csi.storage.k8s.io/ephemeral"] = "true"
		}
		create := goodCreate()
		create.Name, create.Parameters["storagePool"] = handle, pool
		publish := &proto.NodePublishVolumeRequest{VolumeId: handle, VolumeContext: context, VolumeCapability: mounted(), TargetPath: target}
		for _, call := range []struct {
			method      string
			req, answer pb.Message
		}{
			{"Controller/CreateVolume", create, &proto.CreateVolumeResponse{}},
			{"Node/NodePublishVolume", publish, &proto.NodePublishVolumeResponse{}},
			{"Node/NodeGetVolumeStats", &proto.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: target}, &proto.NodeGetVolumeStatsResponse{}},
			{"Controller/ControllerGetVolume", &proto.ControllerGetVolumeRequest{VolumeId: handle}, &proto.ControllerGetVolumeResponse{}},
			{"Controller/ControllerExpandVolume", expand(handle, 2<<20, 0), &proto.ControllerExpandVolumeResponse{}},
			{"Controller/ListVolumes", &proto.ListVolumesRequest{StartingToken: "after:" + handle}, &proto.ListVolumesResponse{}},
			{"Node/NodeUnpublishVolume", &proto.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: target}, &proto.NodeUnpublishVolumeResponse{}},
			{"Controller/DeleteVolume", &proto.DeleteVolumeRequest{VolumeId: handle}, &proto.DeleteVolumeResponse{}},
		} {
			if !utf8.ValidString(handle) || !utf8.ValidString(path) || !utf8.ValidString(pool) {
				return // protobuf takes no such string
			}
			d.answers(t, call.method, call.req, call.answer)
			beside(t)
		}
	})
}

// answers calls a method, and fails the test unless the answer is one that the
// spec has for it.
func (d *driver) answers(t *testing.T, method string, req, answer pb.Message) {
	t.Helper()
	err := d.conn.Invoke(t.Context(), "/csi.v1."+method, req, answer)
	switch code := status.Code(err); code {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.ResourceExhausted, codes.OutOfRange,
		codes.FailedPrecondition, codes.Aborted:
	default:
		t.Errorf("%s %v: %v", method, req, err)
	}
}

// precious lays files where no call may reach, and returns what looks after
// them. What a call mounted is unmounted again.
func (d *driver) precious(f *testing.F) (untouched func(*testing.T)) {
	f.Helper()
	dir := filepath.Dir(d.kubelet)
	files := []string{"precious/file", "legacy/.hostpath-provisioner/keep", "kubelet/keep", "kubelet/pods/full/keep"}
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("precious"), 0o600)); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "precious"), d.target("link")); err != nil {
		f.Fatal(err)
	}
	before := names(f, dir)
	f.Cleanup(func() { d.unmount(f) })
	return func(t *testing.T) {
		t.Helper()
		for _, name := range files {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "precious" {
				t.Errorf("%s holds %q, %v", name, data, err)
			}
		}
		if after := names(t, dir); !slices.Equal(before, after) {
			t.Errorf("beside the pools lie %q, and before %q", after, before)
		}
	}
}

// unmount takes off what is mounted below the kubelet's directory.
func (d *driver) unmount(t testing.TB) {
	t.Helper()
	all, err := mount.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if strings.HasPrefix(i.Point, d.kubelet+"/") {
			_ = unix.Unmount(i.Point, unix.MNT_DETACH)
		}
	}
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
