package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	proto "github.com/container-storage-interface/spec/lib/go/csi"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestConfigIsChecked(t *testing.T) {
	pool := func(name string) *volume.Pool {
		p, err := volume.New(volume.Config{Name: name, Path: "/srv/" + name + "x"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := func() csi.Config {
		return csi.Config{DriverName: "kubevirt.io.hostpath-provisioner", Version: "1", NodeID: "node-01",
			KubeletDir: "/var/lib/kubelet", Pools: pools(t, pool("legacy"), pool("fast"))}
	}
	if _, err := csi.New(good()); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		spoil func(*csi.Config)
		want  string
	}{
		"no driver":        {func(c *csi.Config) { c.DriverName = "" }, "driver name"},
		"driver path":      {func(c *csi.Config) { c.DriverName = "kubevirt.io/hostpath-provisioner" }, "driver name"},
		"long driver":      {func(c *csi.Config) { c.DriverName = strings.Repeat("d", 64) }, "driver name"},
		"no version":       {func(c *csi.Config) { c.Version = "" }, "version"},
		"no node":          {func(c *csi.Config) { c.NodeID = "" }, "node ID"},
		"long node":        {func(c *csi.Config) { c.NodeID = strings.Repeat("n", 64) }, "topology.hostpath.csi/node"},
		"odd node":         {func(c *csi.Config) { c.NodeID = "node_1-" }, "topology label"},
		"relative kubelet": {func(c *csi.Config) { c.KubeletDir = "kubelet" }, "kubelet directory"},
		"unclean kubelet":  {func(c *csi.Config) { c.KubeletDir = "/var/lib/kubelet/" }, "kubelet directory"},
		"kubelet is all":   {func(c *csi.Config) { c.KubeletDir = "/" }, "kubelet directory"},
		"no pool":          {func(c *csi.Config) { c.Pools = nil }, "no pool"},
	} {
		c := good()
		row.spoil(&c)
		if _, err := csi.New(c); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want words %q", name, err, row.want)
		}
	}
}

func TestIdentityAndNode(t *testing.T) {
	d := newDriver(t)
	info, err := d.GetPluginInfo(t.Context(), &proto.GetPluginInfoRequest{})
	if err != nil || info.Name != "kubevirt.io.hostpath-provisioner" || info.VendorVersion != "test" {
		t.Errorf("%v, %v", info, err)
	}
	caps, err := d.GetPluginCapabilities(t.Context(), &proto.GetPluginCapabilitiesRequest{})
	if err != nil || len(caps.Capabilities) != 3 ||
		caps.Capabilities[2].GetVolumeExpansion().GetType() != proto.PluginCapability_VolumeExpansion_ONLINE {
		t.Errorf("%v, %v", caps, err)
	}
	at, err := d.NodeGetInfo(t.Context(), &proto.NodeGetInfoRequest{})
	if err != nil || at.NodeId != node || at.AccessibleTopology.Segments["topology.hostpath.csi/node"] != node {
		t.Errorf("%v, %v", at, err)
	}
}

func TestServeEndsSoon(t *testing.T) {
	d := newDriver(t)
	path := filepath.Join(t.TempDir(), "csi.sock")
	s, err := csi.New(d.config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := kubelet.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	// A connection that stays open, as every sidecar's does.
	client := proto.NewIdentityClient(dial(t, path))
	if _, err := client.Probe(t.Context(), &proto.ProbeRequest{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * time.Second):
		t.Fatal("still serving")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
}
