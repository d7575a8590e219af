package layout

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// configured returns the variable DATADIR of the agents, and what their pods mount.
func configured(t *testing.T, l Layout) (datadir, mounts string) {
	t.Helper()
	pod := corev1.PodSpec{Containers: []corev1.Container{{}}}
	if err := l.Configure(&pod); err != nil {
		t.Fatal(err)
	}
	for _, v := range pod.Containers[0].Env {
		if v.Name == "DATADIR" {
			datadir = v.Value
		}
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts += m.MountPath + " "
	}
	return datadir, mounts
}

// The agents get nodeSelector and mount. A pod has the directory above a mount point, once.
func TestDetails(t *testing.T) {
	cr := &v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{
		{Name: "a", Path: "/mnt/a", Mount: true, NodeSelector: map[string]v1beta1.LabelValue{"disk": "fast"}},
		{Name: "b", Path: "/mnt/b", Mount: true}, {Name: "c", Path: "/srv/c"},
		{Name: "d", Path: "/srv/d", Mount: true, PVCTemplate: &corev1.PersistentVolumeClaimSpec{}}}}}
	l := Of(cr)
	datadir, mounts := configured(t, l)
	const want = `[{"name":"a","path":"/mnt/a/csi","mount":"/mnt/a","nodeSelector":{"disk":"fast"}},{"name":"b","path":"/mnt/b/csi","mount":"/mnt/b"},` +
		`{"name":"c","path":"/srv/c/csi"},{"name":"d","path":"/srv/d/csi","mount":"/srv/d/csi"}]`
	if datadir != want || mounts != "/mnt /srv/c /srv/d " {
		t.Errorf("DATADIR %s\nwant    %s\nmounts %s", datadir, want, mounts)
	}
	if on := l.OnClaims(); len(on) != 1 || on[0].Name != "d" {
		t.Errorf("on claims: %+v", on)
	}
}

// A pool that stays for its volumes stays on its nodes: agents of others would make it there.
func TestRetainedPoolKeepsItsNodes(t *testing.T) {
	fast := poolrecord.Details{NodeSelector: map[string]string{"disk": "fast"}}
	had := poolrecord.Offer{Pools: []poolrecord.Pool{{Name: "a", Path: "/a/csi"}}, Details: map[string]poolrecord.Details{"a": fast}}
	for name, spec := range map[string][]v1beta1.StoragePool{
		"removed": {{Name: "b", Path: "/b"}}, "moved": {{Name: "a", Path: "/z"}},
		"another at its path": {{Name: "b", Path: "/a", NodeSelector: map[string]v1beta1.LabelValue{"disk": "slow"}}},
	} {
		l := Of(&v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: spec}})
		l.Record = &poolrecord.Record{Content: poolrecord.Content{Offer: had}}
		l.retain(had, usage{pools: map[string]int{"a": 1}})
		l.updateRecord(had, nil)
		if datadir, _ := configured(t, l); !strings.Contains(datadir, `{"name":"a","path":"/a/csi","nodeSelector":{"disk":"fast"}}`) {
			t.Errorf("%s: %s", name, datadir)
		}
		if l.Record.Details["a"].NodeSelector["disk"] != "fast" {
			t.Errorf("%s: recorded %+v", name, l.Record.Details)
		}
	}
	// In the record it keeps them while an agent offers it.
	l := Of(&v1beta1.HostPathProvisioner{Spec: v1beta1.HostPathProvisionerSpec{StoragePools: []v1beta1.StoragePool{{Name: "b", Path: "/b"}}}})
	l.Record = &poolrecord.Record{Content: poolrecord.Content{Offer: had}}
	l.updateRecord(had, []running{{PodOffer: poolrecord.PodOffer{Offer: had}}})
	if l.Record.Details["a"].NodeSelector["disk"] != "fast" || l.Details["a"].NodeSelector != nil {
		t.Errorf("recorded %+v, offered %+v", l.Record.Details, l.Details)
	}
}
