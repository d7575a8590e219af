package disks

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

func clean(t *testing.T) {
	for _, s := range settings.Disks()[0].Settings {
		t.Setenv(s.Variable(), "")
		os.Unsetenv(s.Variable()) // t.Setenv puts it back
	}
}

func TestEverySettingHasATarget(t *testing.T) {
	targets := (&Options{}).targets()
	for _, s := range settings.Disks()[0].Settings {
		if _, is := targets[s.Flag]; is == s.Ignored {
			t.Errorf("--%s has a target: %v", s.Flag, is)
		}
		delete(targets, s.Flag)
	}
	if len(targets) > 0 {
		t.Errorf("no flag for %v", targets)
	}
}

// The older program's manifests set everything by these variables.
func TestEnvironmentOfTheOlderProgram(t *testing.T) {
	clean(t)
	for name, value := range map[string]string{
		"LP_NODE_NAME": "node-01", "LP_NAMESPACE_NAME": "ns", "LP_POLLING_INTERVAL": "10s",
		"LP_DEFAULT_PV_SPEC_CONFIGMAP": "cm", "LP_METRICS_ADDR": ":1234", "LP_DEVELOPMENT": "true",
	} {
		t.Setenv(name, value)
	}
	o, err := Parse([]string{"--polling-interval=1m", "--zap-log-level=debug", "--development"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.Node != "node-01" || o.namespace != "ns" || o.interval != time.Minute || o.configMap != "cm" ||
		o.Address != ":1234" {
		t.Errorf("%+v", o)
	}
	t.Setenv("LP_POLLING_INTERVAL", "often")
	if _, err := Parse(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "LP_POLLING_INTERVAL") {
		t.Errorf("error %v, want one that names the variable", err)
	}
}

func TestDefaultsAndMissingSettings(t *testing.T) {
	clean(t)
	o, err := Parse([]string{"--node-name=n", "--namespace-name=ns"}, io.Discard)
	if err != nil || o.interval != 5*time.Minute || o.Address != ":8080" || o.configMap != "" {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = Parse(nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "LP_NODE_NAME") ||
		!strings.Contains(err.Error(), "LP_NAMESPACE_NAME") {
		t.Errorf("error %v, want both missing settings", err)
	}
	for _, args := range [][]string{{"--polling-interval=0s"}, {"inspcet"}, {"--wipe"}, {"--vmodule=device=5"}} {
		if _, err := Parse(append([]string{"--node-name=n", "--namespace-name=ns"}, args...), io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	var help strings.Builder
	if o, err := Parse([]string{"--help"}, &help); o != nil || err != nil ||
		!strings.Contains(help.String(), "LP_POLLING_INTERVAL") {
		t.Errorf("--help: %v, %v: %s", o, err, help.String())
	}
}
