package csi_test

import (
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"
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
		err := d.conn.Invoke(t.Context(), "/csi.v1."+r.method, r.good, r.answer)
		if code := status.Code(err); code == codes.Internal || code == codes.Unknown || code == codes.Unimplemented {
			t.Errorf("%s %v: %v", r.method, r.good, err)
		}
	})
}
