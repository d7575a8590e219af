package provision

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestNewRefuses(t *testing.T) {
	c := examiner(t)
	good := Config{Client: c.client, Events: c.events, Info: c.info, Claims: c.claims, PVs: c.pvs, Pools: c.pools, Backends: c.backends}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"no client":   {func(c *Config) { c.Client = nil }, "client"},
		"no recorder": {func(c *Config) { c.Events = nil }, "recorder"},
		"no info":     {func(c *Config) { c.Info = nil }, "info"},
		"no claims":   {func(c *Config) { c.Claims = nil }, "claims"},
		"no PVs":      {func(c *Config) { c.PVs = nil }, "PVs"},
		"no pools":    {func(c *Config) { c.Pools = nil }, "pools"},
		"no backends": {func(c *Config) { c.Backends = nil }, "backends"},
	} {
		config := good
		row.spoil(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNewBackendsRefuses(t *testing.T) {
	c := examiner(t)
	own := func(pools ...*volume.Pool) []pvs.Served {
		return []pvs.Served{{Dialect: contract.Own(false), Pools: pools}}
	}
	good := BackendsConfig{Node: "node-01", Pools: c.pools, Dialects: own(c.pools.All()[0]), CSIDriver: contract.CSIProvisioner}
	foreign, err := volume.New(volume.Config{Name: "x", Path: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 64)
	for what, row := range map[string]struct {
		spoil func(*BackendsConfig)
		want  string
	}{
		"both":                {func(*BackendsConfig) {}, ""},
		"no node":             {func(c *BackendsConfig) { c.Node = "" }, "NODE_NAME"},
		"no pools":            {func(c *BackendsConfig) { c.Pools = nil }, "pools"},
		"nothing to serve":    {func(c *BackendsConfig) { c.Dialects, c.CSIDriver = nil, "" }, "nothing to serve"},
		"a pool of its own":   {func(c *BackendsConfig) { c.Dialects = own(foreign) }, "none of the node's pools"},
		"no pool":             {func(c *BackendsConfig) { c.Dialects = own() }, "have no pool"},
		"a long node and CSI": {func(c *BackendsConfig) { c.Node = long }, "serve hostPath claims only"},
		"a long node":         {func(c *BackendsConfig) { c.Node, c.CSIDriver = long, "" }, ""},
		"CSI alone":           {func(c *BackendsConfig) { c.Dialects = nil }, ""},
	} {
		config := good
		row.spoil(&config)
		_, err := NewBackends(config)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
