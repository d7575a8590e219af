package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func csiClass(parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: contract.CSIProvisioner,
		Parameters: parameters, MountOptions: []string{"noatime"},
	}
}

// The PV is what the standard provisioner makes of the driver's answer, with
// our label and the pool besides, to the byte.
func TestCSIPV(t *testing.T) {
	at := contract.Place{Node: "node-01", Hostname: "host-a", Pool: "6e0c"}
	pv := contract.CSIPV("pvc-41d7", "pvc-41d7", "local", claim(nil), csiClass(nil), at, corev1.PersistentVolumeReclaimRetain)
	got, err := json.MarshalIndent(pv, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "metadata": {
  "name": "pvc-41d7",
  "labels": {
   "hostpath-provisioner.kubevirt.io/node": "node-01"
  },
  "annotations": {
   "hostpath-provisioner.kubevirt.io/pool": "6e0c"
  }
 },
 "spec": {
  "capacity": {
   "storage": "1500M"
  },
  "csi": {
   "driver": "kubevirt.io.hostpath-provisioner",
   "volumeHandle": "pvc-41d7",
   "fsType": "xfs",
   "volumeAttributes": {
    "storagePool": "local"
   }
  },
  "accessModes": [
   "ReadWriteOnce"
  ],
  "persistentVolumeReclaimPolicy": "Retain",
  "storageClassName": "fast",
  "mountOptions": [
   "noatime"
  ],
  "volumeMode": "Filesystem",
  "nodeAffinity": {
   "required": {
    "nodeSelectorTerms": [
     {
      "matchExpressions": [
       {
        "key": "topology.hostpath.csi/node",
        "operator": "In",
        "values": [
         "node-01"
        ]
       }
      ]
     }
    ]
   }
  }
 },
 "status": {}
}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestCSIPVFollowsTheClass(t *testing.T) {
	pv := contract.CSIPV("pvc-1", "data-pvc-1", "p", claim(nil), csiClass(map[string]string{contract.FSType: "ext4"}), contract.Place{}, "")
	if pv.Spec.CSI.FSType != "ext4" || pv.Spec.CSI.VolumeHandle != "data-pvc-1" {
		t.Errorf("%+v", pv.Spec.CSI)
	}
}

func TestParameters(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{"", "", ""},
		{contract.StoragePool, "local", ""},
		{contract.FSType, "ext4", ""},
		{"storagepool", "local", `"storagepool"`},
		{"csi.storage.k8s.io/provisioner-secret-name", "s", "provisioner-secret-name"},
		{"fsType", "ext4", "fsType"},
	} {
		parameters := map[string]string{}
		if row.key != "" {
			parameters[row.key] = row.value
		}
		_, err := contract.ParametersOf(csiClass(parameters))
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want words %q", row.key, err, row.want)
		}
	}
}

func TestPoolName(t *testing.T) {
	for given, want := range map[string]string{"": "legacy", "local": "local"} {
		if got := contract.PoolName(map[string]string{contract.StoragePool: given}); got != want {
			t.Errorf("%q selects %q", given, got)
		}
	}
	if got := contract.PoolName(nil); got != "legacy" {
		t.Errorf("nothing selects %q", got)
	}
}

func TestAffinityIsOfItsShape(t *testing.T) {
	at := contract.Place{Node: "node-01", Hostname: "host-a"}
	csi := contract.CSIPV("p", "p", "p", claim(nil), csiClass(nil), at, "")
	own := contract.Own(false)
	hostPath := own.PV("p", "/p", claim(nil), csiClass(nil), at, "")
	if contract.TopologyOf(csi) != "node-01" || contract.Hostname(csi) != "" || contract.TopologyOf(hostPath) != "" {
		t.Errorf("CSI %q %q, hostPath %q", contract.TopologyOf(csi), contract.Hostname(csi), contract.TopologyOf(hostPath))
	}
}
