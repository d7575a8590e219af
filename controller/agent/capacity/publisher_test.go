package capacity

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestNew(t *testing.T) {
	pool, err := volume.New(volume.Config{Name: "legacy", Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	for want, spoil := range map[string]func(*Config){
		"":                       func(*Config) {},
		"a client":               func(c *Config) { c.Client = nil },
		"pools":                  func(c *Config) { c.Pools = nil },
		"the namespace":          func(c *Config) { c.Namespace = "" },
		`the node name ""`:       func(c *Config) { c.Node = "" },
		`the node name "Node_1"`: func(c *Config) { c.Node = "Node_1" },
		"must be no more":        func(c *Config) { c.Node = strings.Repeat("n", 64) },
		`the driver name ""`:     func(c *Config) { c.Driver = "" },
		`the driver name "a/`:    func(c *Config) { c.Driver = "a/b" },
	} {
		c := Config{Client: client, Node: "node-01", Driver: contract.CSIProvisioner, Namespace: "storage", Pools: pools}
		spoil(&c)
		p, err := New(c)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v; want words %q", err, want)
		case want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case want == "":
			p.Changed(pool) // before Run, and without blocking
			p.Changed(pool)
			if p.Ready() == nil {
				t.Error("it is ready before it runs")
			}
		}
	}
}
