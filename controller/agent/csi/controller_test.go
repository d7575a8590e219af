package csi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestCreateVolume(t *testing.T) {
	d := newDriver(t)
	for range 3 {
		v := d.create(t, "pvc-"+uid, nil)
		if v.VolumeId != "pvc-"+uid || v.CapacityBytes != 1<<20 || v.VolumeContext["storagePool"] != "legacy" ||
			len(v.VolumeContext) != 1 || len(v.AccessibleTopology) != 1 ||
			v.AccessibleTopology[0].Segments["topology.hostpath.csi/node"] != node {
			t.Errorf("%v", v)
		}
	}
	v, err := d.pools[0].Get("pvc-" + uid)
	want := record.Owner{Namespace: "default", Name: "data", UID: uid}
	if err != nil || v.Owner != want || v.PV != "pvc-"+uid || v.Ephemeral || v.State != record.Ready {
		t.Errorf("%+v, %v", v, err)
	}
	if st, err := os.Stat(filepath.Join(d.pools[0].Path(), "pvc-"+uid)); err != nil || !st.IsDir() {
		t.Error(err)
	}
	again := goodCreate()
	again.CapacityRange.RequiredBytes = 2 << 20
	_, err = d.CreateVolume(t.Context(), again)
	wants(t, err, codes.AlreadyExists, "exists with 1048576 bytes")
	again = goodCreate()
	again.Parameters["storagePool"] = "fast"
	_, err = d.CreateVolume(t.Context(), again)
	wants(t, err, codes.AlreadyExists, "pool legacy has a volume of this name")
}

func TestCreateVolumeSizes(t *testing.T) {
	d := newDriver(t)
	for i, row := range []struct{ required, limit, want int64 }{
		{5, 0, 5}, {5, 7, 5}, {5, 5, 5}, {0, 7, 7}, {0, 0, gib},
	} {
		v := d.create(t, fmt.Sprint("v", i), func(r *proto.CreateVolumeRequest) {
			r.CapacityRange = &proto.CapacityRange{RequiredBytes: row.required, LimitBytes: row.limit}
		})
		if v.CapacityBytes != row.want {
			t.Errorf("%+v: %d bytes", row, v.CapacityBytes)
		}
	}
	v := d.create(t, strings.Repeat("n", 128), func(r *proto.CreateVolumeRequest) { r.CapacityRange = nil })
	if v.CapacityBytes != gib {
		t.Errorf("no range: %d bytes", v.CapacityBytes)
	}
}

func TestCreateVolumeRefuses(t *testing.T) {
	d := newDriver(t)
	d.create(t, "taken", nil)
	os.Mkdir(filepath.Join(d.pools[0].Path(), "unrecorded"), 0o755)
	before := d.state(t)
	type request = proto.CreateVolumeRequest
	capability := func(c *proto.VolumeCapability) func(*request) {
		return func(r *request) { r.VolumeCapabilities = append(r.VolumeCapabilities, c) }
	}
	flags := func(f ...string) *proto.VolumeCapability {
		c := mounted()
		c.GetMount().MountFlags = f
		return c
	}
	named := func(name string) func(*request) { return func(r *request) { r.Name = name } }
	parameter := func(key, value string) func(*request) { return func(r *request) { r.Parameters[key] = value } }
	size := func(required, limit int64) func(*request) {
		return func(r *request) {
			r.CapacityRange = &proto.CapacityRange{RequiredBytes: required, LimitBytes: limit}
		}
	}
	for name, row := range map[string]struct {
		spoil func(*request)
		code  codes.Code
		words string
	}{
		"no name":           {named(""), codes.InvalidArgument, "the name is empty"},
		"200 characters":    {named(strings.Repeat("n", 200)), codes.InvalidArgument, "at most 128"},
		"129 characters":    {named(strings.Repeat("n", 129)), codes.InvalidArgument, "at most 128"},
		"parent":            {named(".."), codes.InvalidArgument, "begins with a dot"},
		"escape":            {named("../escape"), codes.InvalidArgument, "dot"},
		"slash":             {named("a/b"), codes.InvalidArgument, "'/'"},
		"NUL":               {named("a\x00b"), codes.InvalidArgument, `'\x00'`},
		"control character": {named("a\nb"), codes.InvalidArgument, `'\n'`},
		"our own directory": {named(".hostpath-provisioner"), codes.InvalidArgument, "dot"},
		"another size":      {func(r *request) { r.Name = "taken"; r.CapacityRange.RequiredBytes++ }, codes.AlreadyExists, "exists with"},
		"a bare directory":  {named("unrecorded"), codes.AlreadyExists, "without a record"},
		"no capabilities":   {func(r *request) { r.VolumeCapabilities = nil }, codes.InvalidArgument, "none is given"},
		"empty capability":  {capability(&proto.VolumeCapability{}), codes.InvalidArgument, "access type"},
		"no mode":           {capability(withMode(0)), codes.InvalidArgument, "no access mode"},
		"block":             {capability(block()), codes.InvalidArgument, "block access is not supported; ask for a mount volume"},
		"many readers":      {capability(withMode(3)), codes.InvalidArgument, "MULTI_NODE_READER_ONLY is not supported"},
		"one of many":       {capability(withMode(4)), codes.InvalidArgument, "MULTI_NODE_SINGLE_WRITER is not supported"},
		"many writers":      {capability(withMode(5)), codes.InvalidArgument, "MULTI_NODE_MULTI_WRITER is not supported"},
		"mode of tomorrow":  {capability(withMode(99)), codes.InvalidArgument, "99 is not supported"},
		"mount flag":        {capability(flags("noatime", "uid=0")), codes.InvalidArgument, `"uid=0"`},
		"unknown pool":      {parameter("storagePool", "slow"), codes.InvalidArgument, `no pool "slow"`},
		"unknown parameter": {parameter("storagepool", "fast"), codes.InvalidArgument, `"storagepool"`},
		"quota policy":      {parameter("quota", "hard"), codes.InvalidArgument, "required, best-effort or none"},
		"former quota":      {parameter("limit", "required"), codes.InvalidArgument, "parameter limit is now named quota"},
		"inodes":            {parameter("inodes", "many"), codes.InvalidArgument, `"many"`},
		"quota":             {parameter("quota", "required"), codes.ResourceExhausted, "no quota can be enforced"},
		"mutable":           {func(r *request) { r.MutableParameters = map[string]string{"a": "b"} }, codes.InvalidArgument, "mutable"},
		"snapshot source": {func(r *request) {
			r.VolumeContentSource = &proto.VolumeContentSource{Type: &proto.VolumeContentSource_Snapshot{}}
		}, codes.InvalidArgument, "only a volume is supported"},
		"empty source":     {func(r *request) { r.VolumeContentSource = &proto.VolumeContentSource{} }, codes.InvalidArgument, "only a volume is supported"},
		"no source ID":     {func(r *request) { r.VolumeContentSource = from("") }, codes.InvalidArgument, "ID is empty"},
		"a source by path": {func(r *request) { r.VolumeContentSource = from("../other") }, codes.InvalidArgument, "dot"},
		"limit below":      {size(2, 1), codes.OutOfRange, "2 bytes required"},
		"negative":         {size(-1, 0), codes.InvalidArgument, "not negative"},
		"negative limit":   {size(1, -1), codes.InvalidArgument, "not negative"},
		"1 EiB":            {size(1<<60, 0), codes.ResourceExhausted, "wanted 1152921504606846976 bytes"},
		"all there can be": {size(1<<63-1, 0), codes.ResourceExhausted, "not enough space"},
		"other node":       {func(r *request) { r.AccessibilityRequirements.Requisite[0] = on("node-02") }, codes.ResourceExhausted, "node-02"},
		"other node by wish": {func(r *request) {
			r.AccessibilityRequirements = &proto.TopologyRequirement{Preferred: []*proto.Topology{on("node-02")}}
		}, codes.ResourceExhausted, "node-02"},
		"more topology": {func(r *request) {
			r.AccessibilityRequirements.Requisite[0].Segments["zone"] = "a"
		}, codes.ResourceExhausted, "zone"},
		"empty topology": {func(r *request) {
			r.AccessibilityRequirements.Requisite = []*proto.Topology{{}}
		}, codes.ResourceExhausted, "must be on another one"},
	} {
		t.Run(name, func(t *testing.T) {
			req := goodCreate()
			req.Name = "fresh"
			row.spoil(req)
			_, err := d.CreateVolume(t.Context(), req)
			wants(t, err, row.code, row.words)
			d.unchanged(t, before)
		})
	}
	// What they spoiled is good.
	d.create(t, "fresh", nil)
}

func TestAccessModesOfOneNode(t *testing.T) {
	d := newDriver(t)
	for _, mode := range []proto.VolumeCapability_AccessMode_Mode{1, 2, 6, 7} {
		d.create(t, "v"+mode.String(), func(r *proto.CreateVolumeRequest) {
			r.VolumeCapabilities = []*proto.VolumeCapability{withMode(mode)}
			r.AccessibilityRequirements = nil
		})
	}
}

func TestDeleteVolume(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = "fast" })
	os.Mkdir(filepath.Join(d.pools[1].Path(), "unrecorded"), 0o755)
	for range 2 {
		_, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: "v"})
		wants(t, err, codes.OK, "")
	}
	before := d.state(t)
	for name, row := range map[string]struct {
		id   string
		code codes.Code
	}{
		"never there": {"w", codes.OK}, "empty": {"", codes.InvalidArgument}, "escape": {"../v", codes.InvalidArgument},
		"private": {".hostpath-provisioner", codes.InvalidArgument}, "dots": {"..", codes.InvalidArgument},
		"long": {strings.Repeat("n", 300), codes.InvalidArgument}, "bare directory": {"unrecorded", codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: row.id})
			wants(t, err, row.code, "")
			d.unchanged(t, before)
		})
	}
}

// While a pool cannot be asked, nothing may be called deleted, and the others
// go on.
func TestOnePoolIsNotReady(t *testing.T) {
	d := newDriver(t)
	d.create(t, "lost", nil)
	if err := os.Rename(d.pools[0].Path(), d.pools[0].Path()+".away"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"lost", "unknown"} {
		_, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: id})
		wants(t, err, codes.Unavailable, "not ready")
	}
	req := goodCreate()
	_, err := d.CreateVolume(t.Context(), req)
	wants(t, err, codes.Unavailable, "not ready")
	_, err = d.ListVolumes(t.Context(), &proto.ListVolumesRequest{})
	wants(t, err, codes.Unavailable, "not ready")
	c, err := d.GetCapacity(t.Context(), &proto.GetCapacityRequest{})
	if err != nil || c.AvailableCapacity != 0 || c.MaximumVolumeSize.GetValue() != 0 {
		t.Errorf("capacity %v, %v", c, err)
	}
	d.create(t, "other", func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = "fast" })
	_, err = d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: "other"})
	wants(t, err, codes.OK, "")
	p, err := d.Probe(t.Context(), &proto.ProbeRequest{})
	if err != nil || !p.Ready.GetValue() {
		t.Errorf("probe %v, %v", p, err)
	}
	// A volume that was none of a pod's own is done with, whatever the disk does.
	_, err = d.NodeUnpublishVolume(t.Context(), &proto.NodeUnpublishVolumeRequest{VolumeId: "lost", TargetPath: d.target("a")})
	wants(t, err, codes.OK, "")
}

// A pool that is not offered keeps no other from being listed, looked into or
// adopted from, and is refused with its reason.
func TestPoolNotOffered(t *testing.T) {
	d := newDriver(t)
	shared, err := volume.New(volume.Config{Name: "nfs", Path: filepath.Join(t.TempDir(), "nfs"), NotOffered: "it is shared"})
	if err != nil {
		t.Fatal(err)
	}
	_ = shared.Open() // as an agent does, without success
	d.config.Pools, d.config.Adopt = pools(t, shared, d.pools[1]), true
	d.serve(t, filepath.Join(t.TempDir(), "csi.sock"))
	const older = "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	if err := os.Mkdir(filepath.Join(d.pools[1].Path(), older), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ControllerGetVolume(t.Context(), &proto.ControllerGetVolumeRequest{VolumeId: older}); err != nil {
		t.Errorf("look into the other pool: %v", err)
	}
	_, err = d.ControllerExpandVolume(t.Context(), &proto.ControllerExpandVolumeRequest{VolumeId: older, CapacityRange: &proto.CapacityRange{RequiredBytes: 1 << 20}})
	wants(t, err, codes.OK, "")
	list, err := d.ListVolumes(t.Context(), &proto.ListVolumesRequest{})
	if err != nil || len(list.Entries) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	req := goodCreate()
	req.Name, req.Parameters["storagePool"] = "another", "nfs"
	_, err = d.CreateVolume(t.Context(), req)
	wants(t, err, codes.Unavailable, "it is shared")
	_, err = d.NodePublishVolume(t.Context(), &proto.NodePublishVolumeRequest{VolumeId: "pvc-x", TargetPath: d.target("a"),
		VolumeCapability: mounted(), VolumeContext: map[string]string{"storagePool": "nfs"}})
	wants(t, err, codes.Unavailable, "it is shared")
	_, err = d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: older})
	wants(t, err, codes.OK, "")
}

func TestGetCapacity(t *testing.T) {
	d := newDriver(t)
	space, err := d.pools[1].Space()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		req  *proto.GetCapacityRequest
		some bool
		code codes.Code
	}{
		"plain":        {&proto.GetCapacityRequest{}, true, codes.OK},
		"this node":    {&proto.GetCapacityRequest{AccessibleTopology: on(node)}, true, codes.OK},
		"pool":         {&proto.GetCapacityRequest{Parameters: map[string]string{"storagePool": "fast"}}, true, codes.OK},
		"other node":   {&proto.GetCapacityRequest{AccessibleTopology: on("node-02")}, false, codes.OK},
		"block":        {&proto.GetCapacityRequest{VolumeCapabilities: []*proto.VolumeCapability{block()}}, false, codes.OK},
		"unknown pool": {&proto.GetCapacityRequest{Parameters: map[string]string{"storagePool": "slow"}}, false, codes.InvalidArgument},
		"quotas":       {&proto.GetCapacityRequest{Parameters: map[string]string{"quota": "required"}}, false, codes.OK},
		"quota policy": {&proto.GetCapacityRequest{Parameters: map[string]string{"quota": "hard"}}, false, codes.InvalidArgument},
		"unknown key":  {&proto.GetCapacityRequest{Parameters: map[string]string{"pool": "fast"}}, false, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := d.GetCapacity(t.Context(), row.req)
			wants(t, err, row.code, "")
			if c.GetAvailableCapacity() > 0 != row.some || c.GetAvailableCapacity() > space.Total ||
				c.GetAvailableCapacity() != c.GetMaximumVolumeSize().GetValue() {
				t.Errorf("%v of %+v", c, space)
			}
		})
	}
}

// Sidecars and checkers may ask without a class in hand.
func TestGetCapacityWithoutADefaultPool(t *testing.T) {
	d := newDriver(t)
	d.config.Pools = pools(t, d.pools[1])
	d.serve(t, filepath.Join(t.TempDir(), "csi.sock"))
	c, err := d.GetCapacity(t.Context(), &proto.GetCapacityRequest{})
	wants(t, err, codes.OK, "")
	if c.GetAvailableCapacity() != 0 || c.GetMaximumVolumeSize().GetValue() != 0 {
		t.Errorf("%v, want nothing: CreateVolume refuses what names no pool here", c)
	}
}
