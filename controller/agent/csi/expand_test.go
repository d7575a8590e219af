package csi_test

import (
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
)

func expand(name string, required, limit int64) *proto.ControllerExpandVolumeRequest {
	return &proto.ControllerExpandVolumeRequest{
		VolumeId: name, CapacityRange: &proto.CapacityRange{RequiredBytes: required, LimitBytes: limit},
	}
}

func TestExpandVolume(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = "fast" })
	for _, row := range []struct{ required, limit, want int64 }{
		{1 << 20, 0, 1 << 20}, // as it is
		{2 << 20, 0, 2 << 20},
		{2 << 20, 0, 2 << 20}, // again
		{1 << 20, 0, 2 << 20}, // it has more
		{1 << 20, 2 << 20, 2 << 20},
		{0, 3 << 20, 3 << 20},
		{4 << 20, 5 << 20, 4 << 20},
	} {
		req := expand("v", row.required, row.limit)
		req.VolumeCapability = mounted()
		res, err := d.ControllerExpandVolume(t.Context(), req)
		if err != nil || res.CapacityBytes != row.want || res.NodeExpansionRequired {
			t.Errorf("%+v: %v, %v", row, res, err)
		}
		if v, err := d.pools[1].Get("v"); err != nil || v.Bytes != row.want {
			t.Errorf("%+v: the volume has %d bytes, %v", row, v.Bytes, err)
		}
	}
}

func TestExpandVolumeRefuses(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", nil)
	if _, err := d.pools[0].Create(volume.Spec{Name: "pods", Bytes: 1, Ephemeral: true}); err != nil {
		t.Fatal(err)
	}
	ofBlock := expand("v", 2<<20, 0)
	ofBlock.VolumeCapability = block()
	before := d.state(t)
	for name, row := range map[string]struct {
		req   *proto.ControllerExpandVolumeRequest
		code  codes.Code
		words string
	}{
		"no name":        {expand("", 2<<20, 0), codes.InvalidArgument, "the name is empty"},
		"escape":         {expand("../v", 2<<20, 0), codes.InvalidArgument, "dot"},
		"no range":       {&proto.ControllerExpandVolumeRequest{VolumeId: "v"}, codes.InvalidArgument, "none is given"},
		"empty range":    {expand("v", 0, 0), codes.InvalidArgument, "none is given"},
		"negative":       {expand("v", -1, 0), codes.InvalidArgument, "not negative"},
		"limit below":    {expand("v", 2<<20, 1<<20), codes.OutOfRange, "at most 1048576 allowed"},
		"shrink":         {expand("v", 0, 1<<19), codes.OutOfRange, "cannot shrink"},
		"1 EiB":          {expand("v", 1<<60, 0), codes.OutOfRange, "wanted 1152921504605798400 bytes"},
		"all can be":     {expand("v", 1<<63-1, 0), codes.OutOfRange, "not enough space"},
		"never there":    {expand("w", 2<<20, 0), codes.NotFound, "no such volume"},
		"a pod's own":    {expand("pods", 2<<20, 0), codes.FailedPrecondition, "ephemeral inline"},
		"block":          {ofBlock, codes.InvalidArgument, "block access"},
		"our own folder": {expand(".hostpath-provisioner", 2<<20, 0), codes.InvalidArgument, "dot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.ControllerExpandVolume(t.Context(), row.req)
			wants(t, err, row.code, row.words)
			d.unchanged(t, before)
			if v, err := d.pools[0].Get("v"); err != nil || v.Bytes != 1<<20 {
				t.Errorf("the volume has %d bytes, %v", v.Bytes, err)
			}
		})
	}
}
