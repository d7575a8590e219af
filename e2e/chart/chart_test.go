package chart

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// -update writes the renders again.
var update = flag.Bool("update", false, "write the renders again")

// chart is the directory of the chart. Package manifests compares its renders with the
// kustomizations.
const chart = "../../manifests/chart"

// forms has the values of each render, in the words of helm's --set.
var forms = map[string][]string{
	"csi":           nil,
	"legacy":        {"form=legacy"},
	"both":          {"form=both"},
	"local-path":    {"form=local-path"},
	"single-node":   {"form=single-node"},
	"operator":      {"form=operator"},
	"disks":         {"form=none", "disks.enabled=true"},
	"policy":        {"form=none", "policy.enabled=true"},
	"monitoring":    {"form=none", "monitoring.enabled=true"},
	"openshift":     {"form=legacy", "openshift=true"},
	"openshift-csi": {"openshift=true"},
	"kubelet-dir":   {"kubelet.preset=k0s"},
	"own-disk":      {"pools[0].name=local", "pools[0].path=/var/hpvolumes/disk/csi", "pools[0].mount=/var/hpvolumes/disk"},
	"legacy-quotas": {"form=legacy", "quotas.hostPath=true"},
	"other-path":    {"form=legacy", "pvDir=/data/volumes"},
}

// helm runs helm, and returns what it printed, with an error also what it wrote to stderr: it tells
// there which links it follows.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := Helm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return out.String() + log.String(), err
	}
	return out.String(), nil
}

func template(t *testing.T, sets ...string) (string, error) {
	t.Helper()
	args := []string{"template", "hostpath-provisioner", chart, "--namespace=hostpath-provisioner", "--set=image.repository=registry.example.com/hostpath-provisioner"}
	for _, s := range sets {
		args = append(args, "--set="+s)
	}
	return helm(t, args...)
}

func TestRenders(t *testing.T) {
	for name, sets := range forms {
		got, err := template(t, sets...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
			continue
		}
		file := filepath.Join("renders", name+".yaml")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got {
			t.Errorf("%s is not what Helm renders; go -C e2e test ./chart -update writes it again. %v", file, err)
		}
	}
}

// Values that cannot work are refused with words, before anything is installed.
func TestRefused(t *testing.T) {
	for set, words := range map[string]string{
		"image.repository=registry.invalid/hostpath-provisioner": "set image.repository",
		"form=sci":                          "form",
		"pools[0].name=a,pools[0].path=srv": "path",
		"pool=x":                            "pool",
		"image.digest=latest":               "digest",
		"kubelet.preset=k4s":                "preset",
	} {
		if got, err := template(t, set); err == nil || !strings.Contains(got, words) {
			t.Errorf("%s: %v\n%s\nwant words %q", set, err, got, words)
		}
	}
}
