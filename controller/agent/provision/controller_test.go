package provision

import (
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	c := examiner(t)
	good := Config{Client: c.Client, Events: c.Events, Info: c.Info, Claims: c.Claims, PVs: c.PVs, Pools: c.Pools, Backends: c.Backends}
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
