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
	valid, problems := parseConfigMap(map[string]string{
		"HPP_RESERVE": "10Gi", "HPP_PURGE_RATE": "-1", "HPP_ORPHANS": "delete", "HPP_CAPACITY": "", "HPP_RESERV": "1Gi", "PV_DIR": "/a",
		settings.KubeletDir: "/var/lib/k0s/../kubelet", graceKey: "-5m", "reserve": "1Gi",
		"--reserve": "1Gi", "hpp_reserve": "1Gi", "HPP_ENDPOINT": "/csi.sock", "POD_NAME": "a", "HPP_V": "9", "HPP_PUBLISH_CAPACITY": "False",
		"HPP_OVERCOMMIT": "NaN", "HPP_ORPHAN_GRACE": "24", "HPP_METRICS_PER_VOLUME": "TRUE",
	})
	if want := map[string]string{"HPP_METRICS_PER_VOLUME": "TRUE", "HPP_ORPHANS": "delete", "HPP_PUBLISH_CAPACITY": "False",
		"HPP_RESERVE": "10Gi"}; !maps.Equal(valid, want) {
		t.Errorf("valid %v, want %v", valid, want)
	}
	var want []string
	for _, problem := range []string{
		`--reserve is "1Gi"; there is no such setting, so remove it`,
		`HPP_ENDPOINT is "/csi.sock"; there is no such setting, so remove it`,
		`HPP_KUBELET_DIR is "/var/lib/k0s/../kubelet"; set it to an absolute path without . and ..`,
		`HPP_ORPHAN_GRACE is "24"; set it to a duration such as 24h`,
		`HPP_OVERCOMMIT is "NaN"; set it to a number above zero`,
		`HPP_PURGE_RATE is "-1"; set it to a number that is not negative`,
		`HPP_RESERV is "1Gi"; there is no such setting, so remove it`,
		`HPP_V is "9"; it comes from VERBOSITY of the operator, so remove it`,
		`POD_NAME is "a"; it comes from the pod, so remove it`,
		`PV_DIR is "/a"; it comes from spec.pathConfig.path, so remove it`,
		`hpp_reserve is "1Gi"; there is no such setting, so remove it`,
		`nodeGoneGrace is "-5m"; set it to a duration such as 5m`,
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
