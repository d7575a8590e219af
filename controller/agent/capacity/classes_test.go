package capacity

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func TestPoolOf(t *testing.T) {
	wait, atOnce := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for name, row := range map[string]struct {
		provisioner string
		mode        *storagev1.VolumeBindingMode
		parameters  map[string]string
		want        string // "": no object
	}{
		"no parameters":     {contract.CSIProvisioner, &wait, nil, "legacy"},
		"a pool":            {contract.CSIProvisioner, &wait, map[string]string{"storagePool": "fast"}, "fast"},
		"an empty pool":     {contract.CSIProvisioner, &wait, map[string]string{"storagePool": ""}, "legacy"},
		"a filesystem":      {contract.CSIProvisioner, &wait, map[string]string{"csi.storage.k8s.io/fstype": "xfs"}, "legacy"},
		"misspelt":          {contract.CSIProvisioner, &wait, map[string]string{"storagepool": "fast"}, "legacy"},
		"binds at once":     {contract.CSIProvisioner, &atOnce, nil, ""},
		"no mode":           {contract.CSIProvisioner, nil, nil, ""},
		"hostPath":          {contract.HostPathProvisioner, &wait, nil, ""},
		"another's":         {"example.com/x", &wait, map[string]string{"storagePool": "fast"}, ""},
		"another's at once": {"example.com/x", &atOnce, nil, ""},
	} {
		c := &storagev1.StorageClass{Provisioner: row.provisioner, VolumeBindingMode: row.mode, Parameters: row.parameters}
		if got, ok := poolOf(c, contract.CSIProvisioner); got != row.want || ok != (row.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, row.want)
		}
	}
}
