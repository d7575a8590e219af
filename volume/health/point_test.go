package health

import (
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestMayBelong(t *testing.T) {
	r := record.Record{Name: "csi-1", PV: "pvc-1"}
	const pod = "/var/lib/kubelet/pods/0b1c/"
	for point, want := range map[string]bool{
		pod + "volumes/kubernetes.io~csi/pvc-1/mount":                       true,
		pod + "volumes/kubernetes.io~csi/csi-1/mount":                       true,
		pod + "volumes/kubernetes.io~csi/pvc-2/mount":                       false,
		pod + "volumes/kubernetes.io~csi/pvc-1":                             false,
		pod + "volumes/kubernetes.io~csi/pvc-2/mount/pvc-1/mount":           false,
		pod + "volumes/kubernetes.io~nfs/pvc-1":                             false,
		pod + "volumes/kubernetes.io~empty-dir/x":                           false,
		pod + "volume-subpaths/pvc-1/main/0":                                false,
		pod + "volume-subpaths/pods/volumes/kubernetes.io~csi/pvc-1/mount":  false,
		"/srv/pods/kubelet/pods/0b1c/volume-subpaths/v/main/0":              false,
		"/srv/pods/kubelet/pods/0b1c/volumes/kubernetes.io~csi/pvc-1/mount": true,
		"/mnt/csi-1": true, // an administrator's
	} {
		if got := mayBelong(r, mount.Info{Point: point}); got != want {
			t.Errorf("%s: %v", point, got)
		}
	}
}
