package csi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// What is refused before anything is mounted; it needs no root.
func TestPublishRefuses(t *testing.T) {
	d := newDriver(t)
	v := d.create(t, "v", nil)
	d.create(t, "deleted", nil)
	if _, err := d.DeleteVolume(t.Context(), &proto.DeleteVolumeRequest{VolumeId: "deleted"}); err != nil {
		t.Fatal(err)
	}
	d.create(t, "missing", nil)
	os.Remove(filepath.Join(d.pools[0].Path(), "missing"))
	os.Symlink("/etc", d.target("link"))
	os.WriteFile(d.target("file"), nil, 0o600)
	os.MkdirAll(filepath.Dir(d.podTarget("other")), 0o755)
	before := d.state(t)
	type request = proto.NodePublishVolumeRequest
	id := func(id string) func(*request) { return func(r *request) { r.VolumeId = id } }
	target := func(path string) func(*request) { return func(r *request) { r.TargetPath = path } }
	context := func(pairs ...string) func(*request) {
		return func(r *request) {
			r.VolumeContext = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				r.VolumeContext[pairs[i]] = pairs[i+1]
			}
		}
	}
	inline := []string{"csi.storage.k8s.io/ephemeral", "true"}
	for name, row := range map[string]struct {
		spoil func(*request)
		code  codes.Code
		words string
	}{
		"no ID":              {id(""), codes.InvalidArgument, "name is empty"},
		"escape":             {id("../v"), codes.InvalidArgument, "dot"},
		"unknown":            {id("w"), codes.NotFound, "no such volume"},
		"unknown, no pool":   {func(r *request) { r.VolumeId, r.VolumeContext = "w", nil }, codes.NotFound, "no such volume"},
		"deleted meanwhile":  {id("deleted"), codes.NotFound, "no such volume"},
		"directory gone":     {id("missing"), codes.NotFound, "its directory is not"},
		"other pool":         {context("storagePool", "fast"), codes.NotFound, "no such volume"},
		"unknown pool":       {context("storagePool", "slow"), codes.InvalidArgument, `"slow"`},
		"pool is a path":     {context("storagePool", "../.."), codes.InvalidArgument, "no pool"},
		"no capability":      {func(r *request) { r.VolumeCapability = nil }, codes.InvalidArgument, "none is given"},
		"block":              {func(r *request) { r.VolumeCapability = block() }, codes.InvalidArgument, "block access"},
		"many nodes":         {func(r *request) { r.VolumeCapability = withMode(5) }, codes.InvalidArgument, "not supported"},
		"mount flag":         {func(r *request) { r.VolumeCapability.GetMount().MountFlags = []string{"loop"} }, codes.InvalidArgument, `"loop"`},
		"no target":          {target(""), codes.InvalidArgument, "empty"},
		"outside of kubelet": {target("/etc/x"), codes.InvalidArgument, "not below"},
		"kubelet itself":     {target(d.kubelet), codes.InvalidArgument, "not below"},
		"relative":           {target("pods/x"), codes.InvalidArgument, "absolute"},
		"dots":               {target(d.kubelet + "/pods/../../x"), codes.InvalidArgument, "clean"},
		"NUL":                {target(d.kubelet + "/pods/a\x00"), codes.InvalidArgument, "clean"},
		"a link":             {target(d.target("link")), codes.InvalidArgument, "symbolic link"},
		"below a link":       {target(d.target("link/x")), codes.InvalidArgument, "symbolic link"},
		"a file":             {target(d.target("file")), codes.InvalidArgument, "or a file"},
		"no parent":          {target(d.target("none/x")), codes.FailedPrecondition, "is missing"},
		"another's handle":   {target(d.podTarget("other")), codes.FailedPrecondition, `belongs to PV "v", and PV "other" has its handle`},
		"inline, size":       {context(append(inline, "size", "much")...), codes.InvalidArgument, `"much"`},
		"inline, no disk":    {context(append(inline, "size", "18446744073709551617")...), codes.InvalidArgument, `"18446744073709551617"`},
		"inline, no size":    {context(append(inline, "size", "0")...), codes.InvalidArgument, `"0"`},
		"inline, attribute":  {context(append(inline, "sise", "1Gi")...), codes.InvalidArgument, `"sise"`},
		"inline, pool":       {context(append(inline, "storagePool", "slow")...), codes.InvalidArgument, `"slow"`},
		"inline, too big":    {func(r *request) { context(append(inline, "size", "1Ei")...)(r); r.VolumeId = "i" }, codes.ResourceExhausted, "wanted"},
		"inline, is there":   {context(append(inline, "size", "1Mi")...), codes.FailedPrecondition, "exists with"},
	} {
		t.Run(name, func(t *testing.T) {
			req := d.goodPublish(v, "t")
			row.spoil(req)
			_, err := d.NodePublishVolume(t.Context(), req)
			wants(t, err, row.code, row.words)
			d.unchanged(t, before)
		})
	}
}

func TestUnpublishRefuses(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", nil)
	os.MkdirAll(filepath.Join(d.target("full"), "sub"), 0o755)
	os.Symlink(d.kubelet, d.target("link"))
	before := d.state(t)
	for name, row := range map[string]struct {
		id, target string
		code       codes.Code
	}{
		"no ID":           {"", d.target("a"), codes.InvalidArgument},
		"escape":          {"../v", d.target("a"), codes.InvalidArgument},
		"no target":       {"v", "", codes.InvalidArgument},
		"outside":         {"v", "/etc", codes.InvalidArgument},
		"a link":          {"v", d.target("link"), codes.InvalidArgument},
		"never published": {"v", d.target("a"), codes.OK},
		"no parent":       {"v", d.target("none/a"), codes.OK},
		"never made":      {"w", d.target("a"), codes.OK},
		"not empty":       {"v", d.target("full"), codes.FailedPrecondition},
		"long":            {"v", d.target(strings.Repeat("n", 4000)), codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.NodeUnpublishVolume(t.Context(), &proto.NodeUnpublishVolumeRequest{VolumeId: row.id, TargetPath: row.target})
			wants(t, err, row.code, "")
			d.unchanged(t, before)
		})
	}
}

func TestStatsRefuse(t *testing.T) {
	d := newDriver(t)
	d.create(t, "v", nil)
	os.Mkdir(d.target("plain"), 0o755)
	for name, row := range map[string]struct {
		id, path string
		code     codes.Code
	}{
		"no ID":         {"", d.target("a"), codes.InvalidArgument},
		"no path":       {"v", "", codes.InvalidArgument},
		"unknown":       {"w", d.target("a"), codes.NotFound},
		"not there":     {"v", d.target("a"), codes.NotFound},
		"not published": {"v", d.target("plain"), codes.NotFound},
		"outside":       {"v", "/", codes.NotFound},
		"relative":      {"v", "some/path", codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.NodeGetVolumeStats(t.Context(), &proto.NodeGetVolumeStatsRequest{VolumeId: row.id, VolumePath: row.path})
			wants(t, err, row.code, "")
		})
	}
}
