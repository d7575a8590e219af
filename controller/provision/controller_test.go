package provision

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestNewRefuses(t *testing.T) {
	c := examiner(t)
	good := Config{Client: c.client, Node: "node-01", Events: c.events, Info: c.info, PVs: c.pvs, Pools: c.pools, HostPath: c.pools.All()[0], CSIDriver: class.CSIProvisioner}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	foreign, err := volume.New(volume.Config{Name: "x", Path: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 64)
	for what, row := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"no client":           {func(c *Config) { c.Client = nil }, "client"},
		"no node":             {func(c *Config) { c.Node = "" }, "NODE_NAME"},
		"no recorder":         {func(c *Config) { c.Events = nil }, "recorder"},
		"no PVs":              {func(c *Config) { c.PVs = nil }, "PVs"},
		"no pools":            {func(c *Config) { c.Pools = nil }, "pools"},
		"nothing to serve":    {func(c *Config) { c.HostPath, c.CSIDriver = nil, "" }, "nothing to serve"},
		"a pool of its own":   {func(c *Config) { c.HostPath = foreign }, "none of the node's pools"},
		"a long node and CSI": {func(c *Config) { c.Node = long }, "serve hostPath claims only"},
		"a long node":         {func(c *Config) { c.Node, c.CSIDriver = long, "" }, ""},
		"CSI alone":           {func(c *Config) { c.HostPath = nil }, ""},
	} {
		config := good
		row.spoil(&config)
		_, err := New(config)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
