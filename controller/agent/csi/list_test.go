package csi_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
)

func TestListVolumes(t *testing.T) {
	d := newDriver(t)
	want := map[string]bool{}
	for i := range 7 {
		name := fmt.Sprint("v", i)
		want[name] = true
		d.create(t, name, func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = []string{"legacy", "fast"}[i%2] })
	}
	spec := volume.Spec{Name: "csi-pod", Bytes: 1, Ephemeral: true}
	if _, err := d.pools[0].Create(spec); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int32{0, 1, 2, 3, 6, 7, 8} {
		got, token, pages := map[string]bool{}, "", 0
		for {
			page, err := d.ListVolumes(t.Context(), &proto.ListVolumesRequest{MaxEntries: size, StartingToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				if got[e.Volume.VolumeId] {
					t.Errorf("pages of %d: %s is there twice", size, e.Volume.VolumeId)
				}
				got[e.Volume.VolumeId] = true
			}
			if pages++; page.NextToken == "" {
				break
			}
			token = page.NextToken
		}
		if !maps.Equal(got, want) || (size == 7 && pages != 1) {
			t.Errorf("pages of %d: %v on %d pages", size, got, pages)
		}
	}
	page, err := d.ListVolumes(t.Context(), &proto.ListVolumesRequest{MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	// The last of a page goes, another comes before it: the rest stays the rest.
	_, err = d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: page.Entries[1].Volume.VolumeId})
	wants(t, err, codes.OK, "")
	d.create(t, "a", nil)
	page, err = d.ListVolumes(t.Context(), &proto.ListVolumesRequest{StartingToken: page.NextToken})
	if err != nil || len(page.Entries) != 5 {
		t.Errorf("%v, %v", page, err)
	}
	for _, token := range []string{"invalid-token", "after:", "after:../x", "3"} {
		_, err := d.ListVolumes(t.Context(), &proto.ListVolumesRequest{StartingToken: token})
		wants(t, err, codes.Aborted, "list from the start")
	}
	_, err = d.ListVolumes(t.Context(), &proto.ListVolumesRequest{MaxEntries: -1})
	wants(t, err, codes.InvalidArgument, "negative")
}

func TestGetAndValidate(t *testing.T) {
	d := newDriver(t)
	v := d.create(t, "v", nil)
	got, err := d.ControllerGetVolume(t.Context(), &proto.ControllerGetVolumeRequest{VolumeId: "v"})
	if err != nil || got.Volume.CapacityBytes != v.CapacityBytes || got.Status == nil {
		t.Errorf("%v, %v", got, err)
	}
	_, err = d.ControllerGetVolume(t.Context(), &proto.ControllerGetVolumeRequest{VolumeId: "w"})
	wants(t, err, codes.NotFound, "no such volume")
	good := func() *proto.ValidateVolumeCapabilitiesRequest {
		return &proto.ValidateVolumeCapabilitiesRequest{VolumeId: "v", VolumeContext: v.VolumeContext,
			VolumeCapabilities: []*proto.VolumeCapability{mounted()}}
	}
	type request = proto.ValidateVolumeCapabilitiesRequest
	for name, row := range map[string]struct {
		spoil func(*request)
		code  codes.Code
		words string // of the answer; none means confirmed
	}{
		"good":       {func(*request) {}, codes.OK, ""},
		"no ID":      {func(r *request) { r.VolumeId = "" }, codes.InvalidArgument, ""},
		"nothing":    {func(r *request) { r.VolumeCapabilities = nil }, codes.InvalidArgument, ""},
		"unknown":    {func(r *request) { r.VolumeId = "w" }, codes.NotFound, ""},
		"block":      {func(r *request) { r.VolumeCapabilities[0] = block() }, codes.OK, "block"},
		"many":       {func(r *request) { r.VolumeCapabilities[0] = withMode(5) }, codes.OK, "not supported"},
		"other pool": {func(r *request) { r.Parameters = map[string]string{"storagePool": "fast"} }, codes.OK, "in pool legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			req := good()
			row.spoil(req)
			res, err := d.ValidateVolumeCapabilities(t.Context(), req)
			wants(t, err, row.code, "")
			if !strings.Contains(res.GetMessage(), row.words) || (res.GetConfirmed() != nil) != (row.code == codes.OK && row.words == "") {
				t.Errorf("%v", res)
			}
		})
	}
}
