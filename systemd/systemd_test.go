// Package systemd_test keeps the promises of the labelling unit: what it waits for, what waits for
// it, and that it touches nothing but the directory itself.
package systemd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	unitFile = "hostpath-provisioner.service"
	base     = "/var/hpvolumes"
)

// continued is the end of a line that goes on in the next, and the indentation there.
var continued = regexp.MustCompile(`\\\n\s*`)

// unit reads the unit: "Section.Key" to its values, in order. A line that ends with a backslash
// goes on in the next. Ours has no values that reset a key.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	values, section := map[string][]string{}, ""
	for line := range strings.Lines(continued.ReplaceAllString(string(data), "")) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case ok:
			values[section+"."+key] = append(values[section+"."+key], value)
		default:
			t.Errorf("%s: %q is no setting", unitFile, line)
		}
	}
	return values
}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Fatalf("%v; run: apt-get install systemd", err)
	}
	path, err := filepath.Abs(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	// Other units of this machine may have faults; only those of ours count.
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), unitFile) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// relabel is the second command of the unit, its lines joined.
const relabel = `/bin/sh -c '[ "$$RELABEL" = volumes ] || exit 0; for dir in $$PV_DIR; do ` +
	`mount --bind -- "$$dir" /mnt && cd /mnt && ` +
	`find . -mindepth 1 "(" -name .hostpath-provisioner -o -path ./lost+found ")" -prune -o ` +
	`! -context "*:container_*" ! -context "*:svirt_sandbox_file_t:*" ! -context "*:c[0-9]*" ` +
	`"(" -path "./*/*/*" -o -printf "labels $$dir/%%P, which has %%Z\\n" ")" ` +
	`-execdir chcon -h -t container_file_t -- {} + && ` +
	`cd / && umount /mnt || exit 1; done'`

func TestUnitSettings(t *testing.T) {
	got := unit(t)
	want := map[string][]string{
		"Unit.Description": {"SELinux label of the hostpath-provisioner directory"},
		// Where SELinux is off the unit is skipped, not failed.
		"Unit.ConditionSecurity": {"selinux"},
		"Unit.RequiresMountsFor": {base},
		"Unit.After":             {"local-fs.target"},
		"Unit.Before": {"kubelet.service k3s.service rke2-server.service rke2-agent.service " +
			"crio.service containerd.service"},
		// Any other type lets the kubelet start before the label is set.
		"Service.Type":            {"oneshot"},
		"Service.RemainAfterExit": {"yes"},
		"Service.Environment":     {"PV_DIR=" + base, "RELABEL="},
		"Service.EnvironmentFile": {"-/etc/default/hostpath-provisioner"},
		// The bind mount of the last command is not the node's.
		"Service.PrivateMounts": {"yes"},
		"Service.ExecStartPre":  {"/usr/bin/mkdir -p -m 0700 -- $PV_DIR"},
		// What the second does is seen in a booted machine: find knows labels where SELinux is on.
		"Service.ExecStart": {"/usr/bin/chcon -t container_file_t -- $PV_DIR", relabel},
		"Install.WantedBy":  {"multi-user.target"},
	}
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s is %q, want %q", key, got[key], want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s is %q; say here why it is needed", key, got[key])
		}
	}
}

// The unit's own commands, on a directory with a volume in it: the directory is made with its mode,
// one that exists is left alone, and nothing inside is asked about.
func TestCommandsTouchOnlyTheDirectory(t *testing.T) {
	settings := unit(t)
	fresh := filepath.Join(t.TempDir(), "made", "here")
	run(t, settings["Service.ExecStartPre"][0], fresh)
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v; want mode 0700", info, err)
	}
	kept := t.TempDir()
	if err := os.Chmod(kept, 0o750); err != nil {
		t.Fatal(err)
	}
	run(t, settings["Service.ExecStartPre"][0], kept)
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("kept %v, %v; want mode 0750 as before", info, err)
	}
	for _, word := range strings.Fields(settings["Service.ExecStart"][0]) {
		if strings.HasPrefix(word, "-") && strings.ContainsAny(word, "R") || word == "--recursive" {
			t.Errorf("ExecStart walks over tenants' data: %s", settings["Service.ExecStart"][0])
		}
	}
}

// run executes a command line of the unit with one directory for PV_DIR.
func run(t *testing.T, line, dir string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, "$PV_DIR", dir))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// A path that README.md does not show twice would be labelled before its disk is mounted.
func TestReadmeShowsBothLinesOfTheDropIn(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"RequiresMountsFor=$dir", `Environment="PV_DIR=$dir"`} {
		if !strings.Contains(string(data), line) {
			t.Errorf("README.md lacks %s", line)
		}
	}
}

// Nodes whose system comes as an image get the same unit.
func TestMachineConfig(t *testing.T) {
	data, err := os.ReadFile("machineconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Spec struct {
			Config struct {
				Systemd struct {
					Units []struct {
						Name, Contents string
						Enabled        bool
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	units := config.Spec.Config.Systemd.Units
	if len(units) != 1 || units[0].Name != unitFile || !units[0].Enabled || units[0].Contents != string(want) {
		t.Errorf("machineconfig.yaml has units %+v, want an enabled %s with the text of that file", units, unitFile)
	}
}
