package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
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
	"metrics-auth":  {"form=legacy", "metricsAuth=true"},
	"monitored":     {"monitoring.enabled=true", "metricsAuth=true", "networkPolicy=true"},
	"openshift":     {"form=legacy", "openshift=true"},
	"openshift-csi": {"openshift=true"},
	"kubelet-dir":   {"kubelet.preset=k0s"},
	"microk8s":      {"kubelet.preset=microk8s"},
	"talos":         {"kubelet.preset=talos", "pools[0].name=local", "pools[0].path=/var/mnt/hostpath-provisioner/csi", "pools[0].mount=/var/mnt/hostpath-provisioner"},
	"own-disk":      {"pools[0].name=local", "pools[0].path=/var/hpvolumes/disk/csi", "pools[0].mount=/var/hpvolumes/disk"},
	"legacy-quotas": {"form=legacy", "quotas.hostPath=true"},
	"other-path":    {"form=legacy", "pvDir=/data/volumes"},
}

// noted are the forms whose notes have classes.
var noted = []string{"csi", "legacy", "both", "local-path", "single-node", "operator", "disks"}

// helm runs helm without a cluster, and returns what it printed, with an error also what it wrote
// to stderr: it logs there which links it follows.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := Helm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(t.TempDir(), "none"))
	if err := cmd.Run(); err != nil {
		return out.String() + log.String(), err
	}
	return out.String(), nil
}

func template(t *testing.T, sets ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template"}, with(sets)...)...)
}

// with returns arguments for helm: the chart, and values.
func with(sets []string) []string {
	args := []string{"hostpath-provisioner", chart, "--namespace=hostpath-provisioner", "--set=image.repository=registry.example.com/hostpath-provisioner"}
	for _, s := range sets {
		args = append(args, "--set="+s)
	}
	return args
}

func TestRenders(t *testing.T) {
	for name, sets := range forms {
		got, err := template(t, sets...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, got)
			continue
		}
		compare(t, filepath.Join("renders", name+".yaml"), got)
	}
}

// compare compares text with a committed file, or writes the file with -update.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("%s is out of date; go -C e2e test ./chart -update writes it again. %v", file, err)
	}
}

// After an installation Helm prints the classes of the form. Package manifests compares them with
// those of the kustomizations.
func TestNotes(t *testing.T) {
	for _, name := range noted {
		out, err := helm(t, append([]string{"install", "--dry-run=client"}, with(forms[name])...)...)
		_, notes, found := strings.Cut(out, "\nNOTES:\n")
		if err != nil || !found {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		compare(t, filepath.Join("renders", name+".notes.txt"), notes)
	}
	out, err := helm(t, append([]string{"install", "--dry-run=client"}, with([]string{"pools[0].name=fast", "pools[0].path=/fast/csi"})...)...)
	if err != nil || !strings.Contains(out, "name: hostpath-csi-fast\n") || !strings.Contains(out, "storagePool: fast\n") {
		t.Errorf("no class for pool fast: %v\n%s", err, out)
	}
}

// The chart's page of values is what its values say.
func TestReadme(t *testing.T) {
	program, err := docsTool.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--chart-search-root="+chart, "--template-files=../../e2e/chart/README.md.gotmpl",
		"--sort-values-order=file", "--dry-run", "--log-level=warning")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	rows := 0
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		if rows++; strings.HasSuffix(line, "|  |\n") {
			t.Errorf("a value has no description: %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("%d values\n%s", rows, &log)
	}
	compare(t, filepath.Join(chart, "README.md"), strings.TrimSpace(string(out))+"\n")
}

// On OpenShift the constraints allow what the agent asks for, its quotas included.
func TestConstraintsAllowQuotas(t *testing.T) {
	got, err := template(t, "form=legacy", "openshift=true", "quotas.hostPath=true")
	if err != nil || strings.Count(got, "- SYS_ADMIN\n") != 2 {
		t.Errorf("SYS_ADMIN is in %d lists, want that of the agent and that of the constraints; %v", strings.Count(got, "- SYS_ADMIN\n"), err)
	}
}

// Prometheus in another namespace reaches the agents, and its account the pods.
func TestPrometheusElsewhere(t *testing.T) {
	got, err := template(t, "monitoring.enabled=true", "monitoring.namespace=watch", "monitoring.serviceAccount=eyes", "networkPolicy=true")
	for _, want := range []string{"kubernetes.io/metadata.name: watch\n", "  name: eyes\n  namespace: watch\n"} {
		if err != nil || strings.Count(got, want) != 1 {
			t.Errorf("%q is there %d times, %v", want, strings.Count(got, want), err)
		}
	}
}

// Each preset of a distribution leads to the directory of its kubelet.
func TestKubeletPresets(t *testing.T) {
	for preset, dir := range map[string]string{
		"k3s": "/var/lib/kubelet", "kind": "/var/lib/kubelet", "talos": "/var/lib/kubelet", "openshift": "/var/lib/kubelet",
		"k0s": "/var/lib/k0s/kubelet", "microk8s": "/var/snap/microk8s/common/var/lib/kubelet",
	} {
		got, err := template(t, "kubelet.preset="+preset)
		if err != nil || !strings.Contains(got, "--kubelet-dir="+dir+"\n") || strings.Count(got, dir+"/") != 6 {
			t.Errorf("%s: %v; %s is there %d times", preset, err, dir, strings.Count(got, dir+"/"))
		}
	}
}

// Values that cannot work are refused with words, before anything is installed.
func TestRefused(t *testing.T) {
	for set, words := range map[string]string{
		"image.repository=registry.invalid/hostpath-provisioner": "set image.repository",
		"form=sci":                                         "form",
		"pools[0].name=a,pools[0].path=srv":                "path",
		"pool=x":                                           "pool",
		"image.digest=latest":                              "digest",
		"kubelet.preset=k4s":                               "preset",
		"form=local-path,openshift=true":                   "openshift: the form local-path has no",
		"form=operator,monitoring.enabled=true":            "monitoring: the operator applies its own objects",
		"form=operator,metricsAuth=true":                   "metricsAuth: the operator sets up",
		"form=legacy,pvDir=/disk/volumes,pvDirMount=/disk": "pvDirMount: \"/disk\" is directly below /",
		"form=legacy,pvDirMount=/mnt/disk":                 "is not below \"/mnt/disk\": set pvDir",
		"pools[0].name=a,pools[0].path=/data/csi,pools[0].mount=/data":   "pools: the mount \"/data\" is directly below /",
		"pools[0].name=a,pools[0].path=/mnt/b/csi,pools[0].mount=/mnt/a": "is not below its mount",
		"pvDir=/data/volumes":                          "pvDir has no effect in the form csi",
		"form=legacy,pools[0].name=a,pools[0].path=/b": "pools has no effect in the form legacy",
		"form=both,quotas.hostPath=true":               "quotas.hostPath has no effect",
		"form=operator,openshift=true":                 "openshift has no effect",
		"form=single-node,kubelet.preset=k0s":          "kubelet has no effect",
		"form=operator,env.HPP_RESERVE=1Gi":            "env has no effect",
		"env.PV_DIR=/data/volumes,form=legacy":         "belong to PV_DIR: set pvDir",
		"env.HPP_KUBELET_DIR=/k":                       "belong to HPP_KUBELET_DIR: set kubelet.directory",
		"env.HPP_HTTP_ADDRESS=:9999":                   "belong to HPP_HTTP_ADDRESS: leave it out",
		"env.HPP_RESERVED=1Gi":                         "env: the agents have no setting HPP_RESERVED",
		"reserve=10GB":                                 `reserve is "10GB": set it to a quantity such as 10Gi`,
		"overcommit=0":                                 `overcommit is "0": set it to a number above zero`,
		"overcommit=twice":                             `overcommit is "twice"`,
		"env.HPP_TRASH_RETENTION=1d":                   `env.HPP_TRASH_RETENTION is "1d": set it to a duration such as 24h`,
		"env.HPP_ORPHANS=remove":                       `env.HPP_ORPHANS is "remove": set it to report or delete`,
		"policy.enabled=true,policy.config.POOLDIRS=x": "policy.config: POOLDIRS is none of the keys",
		"openshift=true,disks.enabled=true":            "openshift: the agents of raw disks have no",
		"form=local-path,localPathConfig=x":            "localPathConfig",
		"migrate.toCSI=annotated":                      "migrate.toCSI: annotated needs agents that serve both kinds of volumes: set form=both",
		"disks.configMaps.a.volumeMode=Block":          "/disks/configMaps/a",
		"policy.config.DEVICES=x":                      "policy.config has no effect without policy.enabled",
		"form=none,networkPolicy=true":                 "networkPolicy has no effect in the form none",
		"form=none,metricsAuth=true":                   "metricsAuth has no effect in the form none",
	} {
		if got, err := template(t, set); err == nil || !strings.Contains(got, words) {
			t.Errorf("%s: %v\n%s\nwant words %q", set, err, got, words)
		}
	}
}

// A ConfigMap of raw disks that the agents would refuse, or a key that they do not read, is refused: its
// node would offer no disk.
func TestDiskConfigMapsAreChecked(t *testing.T) {
	good := map[string]string{"storageClassName": "c", "volumeMode": "Filesystem", "fsType": "xfs", "deviceDir": "/dev", "deviceNameFilter": "^sdb$"}
	for change, words := range map[string]string{
		"":                           "",
		"volumeMode=Block":           "",
		"wipe=discard":               "",
		"existing=refuse":            "",
		"encrypt=false":              "",
		"mountOptions=noatime":       "",
		"devicedir=/dev":             "devicedir",
		"existing=keep":              "existing",
		"wipe=never":                 "wipe",
		"encrypt=true":               "encrypt",
		"fsType=ntfs":                "fsType",
		"fsType=":                    "fsType",
		"volumeMode=Directory":       "volumeMode",
		"deviceDir=dev":              "deviceDir",
		"deviceDir=/mnt/disks":       "is not /dev or below it",
		"deviceDir=/dev/../mnt":      "is not /dev or below it",
		"deviceDir=/dev/disk/by-id/": "",
		"-deviceNameFilter":          "deviceNameFilter",
		"-fsType":                    "fsType",
		"name=Not_A_Name":            "Not_A_Name",
		"enabled=false":              "disks.configMaps has no effect without disks.enabled",
	} {
		data, name, enabled := maps.Clone(good), "mine", true
		switch key, value, set := strings.Cut(change, "="); {
		case key == "name":
			name = value
		case key == "enabled":
			enabled = false
		case set:
			data[key] = value
		default:
			delete(data, strings.TrimPrefix(key, "-"))
		}
		values, err := json.Marshal(map[string]any{"disks": map[string]any{"enabled": enabled, "configMaps": map[string]any{name: data}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "values.json")
		if err := os.WriteFile(file, values, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := helm(t, append([]string{"template", "--values=" + file}, with(nil)...)...); (err == nil) != (words == "") || err != nil && !strings.Contains(got, words) {
			t.Errorf("%s: %v\n%s\nwant words %q", change, err, got, words)
		}
	}
}
