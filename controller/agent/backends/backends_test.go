package backends

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// named is a node of which the name alone counts.
type named string

func (n named) Name() string   { return string(n) }
func (named) UID() string      { return "" }
func (named) Hostname() string { return "" }
func (named) Former() []string { return nil }

// backendsOf returns the backends of node-01 with the pools legacy, which is that of hostPath
// claims, and fast.
func backendsOf(t *testing.T) *Backends {
	t.Helper()
	pools := classtest.Pools(t)
	b, err := New(Config{Node: named("node-01"), Pools: pools, CSIDriver: contract.CSIProvisioner,
		Dialects: []Served{{Dialect: contract.Own(false), Pools: []*volume.Pool{pools.Named("legacy")}}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNewBackendsRefuses(t *testing.T) {
	pools := classtest.Pools(t)
	own := func(of ...*volume.Pool) []Served {
		return []Served{{Dialect: contract.Own(false), Pools: of}}
	}
	good := Config{Node: named("node-01"), Pools: pools, Dialects: own(pools.All()[0]), CSIDriver: contract.CSIProvisioner}
	foreign, err := volume.New(volume.Config{Name: "x", Path: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 64)
	for what, row := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"both":                {func(*Config) {}, ""},
		"no node":             {func(c *Config) { c.Node = named("") }, "NODE_NAME"},
		"no pools":            {func(c *Config) { c.Pools = nil }, "pools"},
		"nothing to serve":    {func(c *Config) { c.Dialects, c.CSIDriver = nil, "" }, "nothing to serve"},
		"a pool of its own":   {func(c *Config) { c.Dialects = own(foreign) }, "none of the node's pools"},
		"no pool":             {func(c *Config) { c.Dialects = own() }, "have no pool"},
		"a long node and CSI": {func(c *Config) { c.Node = named(long) }, "serve hostPath claims only"},
		"a long node":         {func(c *Config) { c.Node, c.CSIDriver = named(long), "" }, ""},
		"CSI alone":           {func(c *Config) { c.Dialects = nil }, ""},
	} {
		config := good
		row.spoil(&config)
		_, err := New(config)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
