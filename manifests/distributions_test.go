package manifests_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// On Talos the pool is on the user volume, which Talos mounts at /var/mnt/NAME: the agent waits for
// that mount, sees it come, and can set quotas there. The namespace admits its pods.
func TestTalosPoolIsOnTheUserVolume(t *testing.T) {
	volume := one[*userVolume](t, talos+"/user-volume.yaml")
	at := path.Join("/var/mnt", volume.Name)
	if volume.APIVersion != "v1alpha1" || volume.Filesystem.Type != "xfs" || !volume.Filesystem.ProjectQuotaSupport ||
		volume.Provisioning.DiskSelector.Match == "" {
		t.Errorf("%+v", volume)
	}
	pod, c := agent(t, talos)
	var pools []struct{ Path, Mount string }
	if err := json.Unmarshal([]byte(environment(c)["DATADIR"]), &pools); err != nil {
		t.Fatal(err)
	}
	for _, p := range pools {
		if p.Mount != at || !strings.HasPrefix(p.Path, at+"/") {
			t.Errorf("pool %+v, the volume is at %s", p, at)
		}
	}
	// A hostPath volume of the mount point itself would be a mount point without the disk too.
	if m := mountAt(c, "/var/mnt"); m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer || hostOf(pod, c, "/var/mnt") != "/var/mnt" {
		t.Errorf("mounts %+v", c.VolumeMounts)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, "/var/hpvolumes") {
			t.Errorf("the pod still has %s", v.HostPath.Path)
		}
	}
	if level := one[*corev1.Namespace](t, talos).Labels["pod-security.kubernetes.io/enforce"]; level != "privileged" {
		t.Errorf("the namespace enforces %q", level)
	}
}

// Where nothing differs, the overlay is the base: a patch that is forgotten would be seen.
func TestDistributionsChangeTheAgentAlone(t *testing.T) {
	base := rendered(t, "csi")
	for dir, same := range map[string]bool{
		"distributions/k3s": true, "distributions/kind": true, "distributions/k0s": false, "distributions/microk8s": false, talos: false,
	} {
		for id, o := range rendered(t, dir) {
			_, workload := o.(*appsv1.DaemonSet)
			if equal := string(asJSON(t, o)) == string(asJSON(t, base[id])); equal != (same || !workload) {
				t.Errorf("%s: %s equals that of csi: %v", dir, id, equal)
			}
		}
	}
}
