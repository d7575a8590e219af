package classtest

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Pools returns the open pools legacy and fast, until the test ends.
func Pools(t *testing.T) *volume.Pools {
	t.Helper()
	var all []*volume.Pool
	for _, name := range []string{"legacy", "fast"} {
		pool, err := volume.New(volume.Config{Name: name, Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		all = append(all, pool)
	}
	pools, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	return pools
}

// PV returns the PV that the agent makes for Claim(uid, className, "") on the node
// node-01, whose hostname is host-a, with what the provisioner library adds.
func PV(pools *volume.Pools, uid, className string) *corev1.PersistentVolume {
	claim, sc := Claim(uid, className, ""), Class(className)
	name, pool := contract.PVName(claim), pools.Named(contract.PoolName(sc.Parameters))
	at := contract.Place{Node: "node-01", Hostname: "host-a", Pool: pool.ID()}
	policy := contract.ReclaimPolicy("", sc)
	var pv *corev1.PersistentVolume
	if sc.Provisioner == contract.HostPathProvisioner {
		own := contract.Own(false)
		pv = own.PV(name, filepath.Join(pool.Path(), name), claim, sc, at, policy)
	} else {
		pv = contract.CSIPV(name, name, pool.Name(), claim, sc, at, policy)
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, contract.AnnProvisionedBy, sc.Provisioner)
	return pv
}
