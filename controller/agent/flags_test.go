package agent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestSettingsFromTheEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "node-01")
	t.Setenv("PV_DIR", t.TempDir())
	t.Setenv("USE_NAMING_PREFIX", "tRUE")
	t.Setenv("HPP_PURGE_RATE", "7")
	t.Setenv("HPP_KUBE_API_QPS", "3")
	t.Setenv("HPP_RESERVE", "")
	o, err := parseOptions("test", []string{"--kube-api-qps=4"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if !o.prefix || o.purgeRate != 7 || o.qps != 4 || o.reserve != "0" {
		t.Errorf("prefix %v, purge rate %d, requests per second %v, reserve %q", o.prefix, o.purgeRate, o.qps, o.reserve)
	}
	t.Setenv("HPP_PURGE_RATE", "fast")
	if _, err := parseOptions("test", nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "HPP_PURGE_RATE") {
		t.Errorf("error %v, want one that names the variable", err)
	}
}

// Two flags never share a variable, whatever their names.
func TestVariablesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, s := range (&options{}).sections() {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			if other, twice := seen[Variable(f.Name)]; twice {
				t.Errorf("%s is the variable of --%s and --%s", Variable(f.Name), other, f.Name)
			}
			seen[Variable(f.Name)] = f.Name
		})
	}
	t.Logf("%d flags", len(seen))
}
