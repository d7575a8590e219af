package plugin_test

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// A pool may be the directory of another provisioner, too: a directory without a record is its
// volume if a PV names it. "by hand" is an advice to remove it, so it stands beside none of them,
// and beside no directory at all while the PVs are unknown.
func TestOrphansKeepWhatPVsName(t *testing.T) {
	names := []string{"shop-lp-pvc-21", "pvc-22_shop_local", "pvc-23", "pvc-24", "stray"}
	verdicts := func(c *scene.Cluster) map[string]string {
		for _, name := range names {
			c.Pools["node-01"][0].Unrecorded = append(c.Pools["node-01"][0].Unrecorded, inspect.Unrecorded{Name: name})
		}
		_, out, errOut := call(t.Context(), "orphans", "-o", "wide", "--kubeconfig", c.Serve(t).Kubeconfig(t))
		got := map[string]string{}
		for line := range strings.Lines(out) {
			if cells := regexp.MustCompile(`  +`).Split(strings.TrimSpace(line), -1); len(cells) > 9 {
				got[cells[1]] = cells[8]
			}
		}
		if len(got) < len(names) {
			t.Fatalf("%d rows:\n%s%s", len(got), out, errOut)
		}
		return got
	}
	c := scene.Healthy()
	of := func(name string, source corev1.PersistentVolumeSource) {
		pv := scene.OthersPV(name, "node-01")
		pv.Spec.PersistentVolumeSource = source
		c.Add(pv)
	}
	of("pvc-21", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/shop-lp-pvc-21"}})
	of("pvc-22", corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/var/hpvolumes/pvc-22_shop_local/disk"}})
	of("pvc-23", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "other"}})
	of("other", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "pvc-24"}})
	got := verdicts(c)
	for name, pv := range map[string]string{"shop-lp-pvc-21": "pvc-21", "pvc-22_shop_local": "pvc-22", "pvc-23": "pvc-23", "pvc-24": "other"} {
		if got[name] != "kept: PV "+pv+" may name it" {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	if got["stray"] != "by hand" {
		t.Errorf("stray: %q", got["stray"])
	}

	blind := scene.Healthy()
	blind.Forbidden = []string{"persistentvolumes"}
	for name, verdict := range verdicts(blind) {
		if name != "VOLUME" && !strings.HasPrefix(verdict, "kept: unknown: whether a PV names it") {
			t.Errorf("without PVs, %s: %q", name, verdict)
		}
	}
}
