package csi_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	node = "node-01"
	gib  = int64(1) << 30
)

// driver is one that serves on a socket, with what is behind it.
type driver struct {
	proto.IdentityClient
	proto.ControllerClient
	proto.NodeClient

	conn    *grpc.ClientConn
	pools   []*volume.Pool // legacy and fast
	kubelet string
	config  csi.Config
}

// newDriver serves two pools, without a bound on what they allocate.
func newDriver(t testing.TB) *driver {
	t.Helper()
	return newDriverOf(t, func(*volume.Config) {})
}

// newDriverOf is newDriver with pools that are configured otherwise.
func newDriverOf(t testing.TB, configure func(*volume.Config)) *driver {
	t.Helper()
	dir := t.TempDir()
	d := &driver{kubelet: filepath.Join(dir, "kubelet")}
	if err := os.MkdirAll(filepath.Join(d.kubelet, "pods"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"legacy", "fast"} {
		c := volume.Config{Name: name, Path: filepath.Join(dir, name)}
		configure(&c)
		p, err := volume.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		d.pools = append(d.pools, p)
	}
	d.config = csi.Config{DriverName: "kubevirt.io.hostpath-provisioner", Version: "test", NodeID: node,
		KubeletDir: d.kubelet, Pools: pools(t, d.pools...)}
	d.serve(t, filepath.Join(dir, "csi.sock"))
	return d
}

func pools(t testing.TB, all ...*volume.Pool) *volume.Pools {
	t.Helper()
	s, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *driver) serve(t testing.TB, path string) {
	t.Helper()
	s, err := csi.New(d.config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := kubelet.Listen("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, path)
	d.conn = conn
	d.IdentityClient, d.ControllerClient, d.NodeClient =
		proto.NewIdentityClient(conn), proto.NewControllerClient(conn), proto.NewNodeClient(conn)
	runs(t, func(ctx context.Context) error { return s.Serve(ctx, l) })
}

// runs runs a part until the test ends.
func runs(t testing.TB, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func dial(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func mounted() *proto.VolumeCapability {
	return &proto.VolumeCapability{
		AccessType: &proto.VolumeCapability_Mount{Mount: &proto.VolumeCapability_MountVolume{FsType: "xfs"}},
		AccessMode: &proto.VolumeCapability_AccessMode{Mode: proto.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func block() *proto.VolumeCapability {
	c := mounted()
	c.AccessType = &proto.VolumeCapability_Block{Block: &proto.VolumeCapability_BlockVolume{}}
	return c
}

func withMode(m proto.VolumeCapability_AccessMode_Mode) *proto.VolumeCapability {
	c := mounted()
	c.AccessMode.Mode = m
	return c
}

func on(name string) *proto.Topology {
	return &proto.Topology{Segments: map[string]string{"topology.hostpath.csi/node": name}}
}

const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// goodCreate is what the provisioner sidecar sends.
func goodCreate() *proto.CreateVolumeRequest {
	return &proto.CreateVolumeRequest{
		Name:               "pvc-" + uid,
		CapacityRange:      &proto.CapacityRange{RequiredBytes: 1 << 20},
		VolumeCapabilities: []*proto.VolumeCapability{mounted()},
		Parameters: map[string]string{
			"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "default",
			"csi.storage.k8s.io/pv/name": "pvc-" + uid,
		},
		AccessibilityRequirements: &proto.TopologyRequirement{
			Requisite: []*proto.Topology{on(node)}, Preferred: []*proto.Topology{on(node)},
		},
	}
}

func (d *driver) create(t *testing.T, name string, spoil func(*proto.CreateVolumeRequest)) *proto.Volume {
	t.Helper()
	req := goodCreate()
	req.Name, req.Parameters["csi.storage.k8s.io/pv/name"] = name, name
	if spoil != nil {
		spoil(req)
	}
	res, err := d.CreateVolume(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.Volume
}

// target is a path that kubelet may ask for.
func (d *driver) target(name string) string { return filepath.Join(d.kubelet, "pods", name) }

// podTarget is the path that kubelet asks for where a pod uses the PV.
func (d *driver) podTarget(pv string) string {
	return d.target("a-pod/volumes/kubernetes.io~csi/" + pv + "/mount")
}

func (d *driver) goodPublish(v *proto.Volume, target string) *proto.NodePublishVolumeRequest {
	return &proto.NodePublishVolumeRequest{
		VolumeId: v.GetVolumeId(), VolumeContext: v.GetVolumeContext(), VolumeCapability: mounted(), TargetPath: d.target(target),
	}
}

// wants fails the test unless err has the code and the words.
func wants(t *testing.T, err error, code codes.Code, words string) {
	t.Helper()
	if got := status.Code(err); got != code || !strings.Contains(status.Convert(err).Message(), words) {
		t.Errorf("got %v (%v), want %v with the words %q", got, err, code, words)
	}
}

// state is everything on the disk but what changes by itself.
func (d *driver) state(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, root := range []string{d.pools[0].Path(), d.pools[1].Path(), d.kubelet} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			all = append(all, path+" "+e.Type().String())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// unchanged fails the test if the disk is not as it was.
func (d *driver) unchanged(t *testing.T, before []string) {
	t.Helper()
	if after := d.state(t); !slices.Equal(before, after) {
		t.Errorf("the disk changed:\nbefore %q\nafter  %q", before, after)
	}
}
