package layout

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

func TestParseConfigMap(t *testing.T) {
	p := parseConfigMap(map[string]string{
		"HPP_RESERVE": "10Gi", "HPP_PURGE_RATE": "-1", "HPP_ORPHANS": "delete", "HPP_CAPACITY": "", "HPP_RESERV": "1Gi", "PV_DIR": "/a",
		settings.KubeletDir: "/var/lib/k0s/../kubelet", graceKey: "-5m", "reserve": "1Gi",
		"--reserve": "1Gi", "hpp_reserve": "1Gi", "HPP_ENDPOINT": "/csi.sock", "POD_NAME": "a", "HPP_V": "9", "HPP_PUBLISH_CAPACITY": "False",
		"HPP_OVERCOMMIT": "NaN", "HPP_ORPHAN_GRACE": "24", "HPP_METRICS_PER_VOLUME": "TRUE",
	}, nil)
	if want := map[string]string{"HPP_METRICS_PER_VOLUME": "TRUE", "HPP_ORPHANS": "report", "HPP_PUBLISH_CAPACITY": "False",
		"HPP_RESERVE": "10Gi"}; !maps.Equal(p.values, want) || p.last["HPP_ORPHANS"] != "delete" {
		t.Errorf("values %v, want %v, and last %v", p.values, want, p.last)
	}
	problems := p.problems
	var want []string
	for _, problem := range []string{
		`--reserve is "1Gi"; there is no such setting, so remove it`,
		`HPP_ENDPOINT is "/csi.sock"; there is no such setting, so remove it`,
		`HPP_KUBELET_DIR is "/var/lib/k0s/../kubelet"; set it to an absolute path without . and ..; until then the agents are not changed`,
		`HPP_ORPHAN_GRACE is "24"; set it to a duration such as 24h; until then orphans are only reported`,
		`HPP_OVERCOMMIT is "NaN"; set it to a number above zero; until then its default applies`,
		`HPP_PURGE_RATE is "-1"; set it to a number that is not negative; until then its default applies`,
		`HPP_RESERV is "1Gi"; there is no such setting, so remove it`,
		`HPP_V is "9"; it comes from VERBOSITY of the operator, so remove it`,
		`POD_NAME is "a"; it comes from the pod, so remove it`,
		`PV_DIR is "/a"; it comes from spec.pathConfig.path, so remove it`,
		`hpp_reserve is "1Gi"; there is no such setting, so remove it`,
		`nodeGoneGrace is "-5m"; set it to a duration such as 5m; until then no volume of a lost node is given up`,
		`reserve is "1Gi"; there is no such setting, so remove it`,
	} {
		want = append(want, "ConfigMap hostpath-provisioner-settings: "+problem)
	}
	if !slices.Equal(problems, want) {
		t.Errorf("problems\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

// docs/operator.md lists the keys, and no other.
func TestSettingsOfTheConfigMapAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Settings\n")
	table, _, _ = strings.Cut(table, "\n## ")
	table = table[strings.Index(table, "\n| about | keys |"):]
	table, _, _ = strings.Cut(table, "\n\nA change")
	var listed []string
	for _, name := range regexp.MustCompile("`([A-Z]+_[A-Z_]+|nodeGoneGrace)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, name[1])
	}
	want := slices.Sorted(maps.Keys(configMapKinds()))
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/operator.md lists %q, want %q", listed, want)
	}
}

// What the operator sets itself are variables of the agent, and no ConfigMap may have them.
func TestDerivedSettings(t *testing.T) {
	variables := map[string]bool{settings.PodName: true} // which has no flag
	for _, section := range settings.Agent("") {
		for _, s := range section.Settings {
			variables[s.Variable()] = true
		}
	}
	kinds := configMapKinds()
	for name := range derivedSettings {
		if !variables[name] {
			t.Errorf("the agent has no variable %s", name)
		}
		if _, is := kinds[name]; is {
			t.Errorf("%s is derived, and the ConfigMap may have it", name)
		}
	}
}

// misspelt has a value of each setting that is accepted, and five that are not.
var misspelt = map[string][6]string{
	graceKey:                  {"24h", "1d", "24 h", "24hours", "86400", "-24h"},
	"PV_RECLAIM_POLICY":       {"Retain", "retain", "Keep", "Retain ", "RETAIN", "Recycle"},
	"HPP_ORPHANS":             {"report", "Report", "keep", "off", "report ", "reports"},
	"HPP_ORPHAN_GRACE":        {"720h", "30d", "720", "720 h", "-720h", "a month"},
	settings.KubeletDir:       {"/var/lib/k0s/kubelet", "var/lib/kubelet", "/", "/var/lib/../kubelet", "/var/lib/kubelet/", "~/kubelet"},
	"HPP_RESERVE":             {"10Gi", "10GiB", "10 Gi", "ten", "-10Gi", "10%"},
	"HPP_DIRECTORY_MODE":      {"0770", "rwxrwx---", "0o770", "770 ", "0999", "-0770"},
	"HPP_OVERCOMMIT":          {"2", "0", "-2", "200%", "NaN", "1,5"},
	"HPP_ENABLE_BTRFS_QUOTA":  {"true", "yes", "on", "2", " true", "ja"},
	"HPP_PURGE_RATE":          {"100", "-1", "1.5", "fast", " 1", "1e3"},
	"HPP_COPY_RATE":           {"100Mi", "100MiB", "100 Mi", "fast", "-100Mi", "10%"},
	"HPP_TRASH_RETENTION":     {"24h", "1d", "24", "24 h", "-24h", "a day"},
	"HPP_TRASH_RETENTION_MAX": {"720h", "30d", "720", "720 h", "-720h", "a month"},
	"HPP_PUBLISH_CAPACITY":    {"false", "no", "off", "-", "fals", "0 "},
	"HPP_CAPACITY":            {"filesystem", "Filesystem", "disk", "fs", "whole", "filesystem "},
	settings.MigrateToCSI:     {"plan", "Plan", "on", "yes", "run,back", "dry-run"},
	"MIGRATE_FROM":            {"hostpath", "others", "local-path", "Hostpath", "hostpath;local", "all"},
	"MIGRATE_USED":            {"true", "yes", "on", "2", "y ", "used"},
	"HPP_KUBE_API_QPS":        {"50", "0", "-1", "fast", "NaN", "1,5"},
	"HPP_METRICS_PER_VOLUME":  {"true", "yes", "on", "2", "y ", "all"},
	"HPP_INLINE_VOLUMES":      {"scratch=1Gi", "no", "scratch=", "scratch=1GB ", "1Gi", "scratch=1Gi,"},
	"HPP_SELINUX_LABEL":       {"auto"}, // any text is a label
}

// Every setting of the ConfigMap has an answer for a value that cannot be read: the last valid one,
// and without one what destroys no more than any value that may be meant.
func TestMisspeltSettings(t *testing.T) {
	for name := range configMapKinds() {
		row, ok := misspelt[name]
		a, answered := answers[name]
		if !ok || !answered || a.until == "" {
			t.Errorf("%s has no row here, or no answer", name)
			continue
		}
		if row[1] == "" {
			continue
		}
		good := row[0]
		if p := parseConfigMap(map[string]string{name: good}, nil); p.values[name] != good || len(p.problems) > 0 {
			t.Errorf("%s=%q: %+v", name, good, p)
		}
		for _, bad := range row[1:] {
			p := parseConfigMap(map[string]string{name: bad}, map[string]string{name: good})
			if p.values[name] != good || p.last[name] != good || p.withheld || p.graceUnknown || len(p.problems) != 1 || !strings.Contains(p.problems[0], good) {
				t.Errorf("%s was %q and is %q: %+v", name, good, bad, p)
			}
			p = parseConfigMap(map[string]string{name: bad}, nil)
			if p.values[name] != a.set[name] || p.withheld != a.withheld || p.graceUnknown != (name == graceKey) || len(p.problems) != 1 || len(p.last) > 0 {
				t.Errorf("%s is %q: %+v", name, bad, p)
			}
		}
	}
	for name := range answers {
		if _, is := configMapKinds()[name]; !is {
			t.Errorf("%s has an answer, and is no setting", name)
		}
	}
}

// A key that does not exist may be one that is misspelt: what that key was stays, and nothing is
// given up.
func TestMisspeltKey(t *testing.T) {
	last := map[string]string{"PV_RECLAIM_POLICY": "Retain", "HPP_ORPHANS": "delete", graceKey: "24h"}
	p := parseConfigMap(map[string]string{"PV_RECLAIM_POLCY": "Retain", "HPP_ORPHANS": ""}, last)
	if want := map[string]string{"PV_RECLAIM_POLICY": "Retain", graceKey: "24h"}; !maps.Equal(p.values, want) || !maps.Equal(p.last, want) || !p.graceUnknown || p.withheld {
		t.Errorf("%+v", p)
	}
	if p := parseConfigMap(map[string]string{"PV_DIR": "/a"}, last); len(p.values) > 0 || p.graceUnknown {
		t.Errorf("without such a key: %+v", p)
	}
}
