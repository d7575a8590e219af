// Package classtest has the classes, claims, PVs and pools of tests.
package classtest

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Class returns one of the classes that tests use, by its name: wait, now and unset get hostPath
// PVs, single and single-wait those of the provisioner for one node; csi, csi-fast, csi-now and
// csi-unset get CSI PVs; local-path is one of rancher.io/local-path, theirs another provisioner's. It
// returns nil for any other name.
func Class(name string) *storagev1.StorageClass {
	wait, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: contract.HostPathProvisioner}
	switch name {
	case "wait":
		c.VolumeBindingMode = &wait
	case "now":
		c.VolumeBindingMode = &now
	case "unset":
	case "csi", "csi-fast":
		c.Provisioner, c.VolumeBindingMode = contract.CSIProvisioner, &wait
		if name == "csi-fast" {
			c.Parameters = map[string]string{contract.StoragePool: "fast"}
		}
	case "csi-now":
		c.Provisioner, c.VolumeBindingMode = contract.CSIProvisioner, &now
	case "csi-unset":
		c.Provisioner = contract.CSIProvisioner
	case "single":
		c.Provisioner, c.VolumeBindingMode = contract.SingleNodeProvisioner, &now
	case "single-wait":
		c.Provisioner, c.VolumeBindingMode = contract.SingleNodeProvisioner, &wait
	case "local-path":
		c.Provisioner, c.VolumeBindingMode = contract.LocalPathProvisioner, &wait
	case "theirs":
		c.Provisioner, c.VolumeBindingMode = "example.com/other", &now
	default:
		return nil
	}
	return c
}

// Claim makes a claim, bound if it has a volume; annotations come in pairs.
func Claim(uid, className, volume string, annotations ...string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim-" + uid, UID: types.UID(uid), ResourceVersion: "7",
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
	if className != "" {
		c.Spec.StorageClassName = &className
	}
	c.Status.Phase = corev1.ClaimPending
	if volume != "" {
		c.Status.Phase = corev1.ClaimBound
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotations[i], annotations[i+1])
	}
	return c
}

// Pools returns the open pools legacy and fast, until the test ends.
func Pools(t *testing.T) *volume.Pools { return PoolsOf(t, func(*volume.Config) {}) }

// PoolsOf is Pools after a change of their configurations.
func PoolsOf(t *testing.T, change func(*volume.Config)) *volume.Pools {
	t.Helper()
	var all []*volume.Pool
	for _, name := range []string{"legacy", "fast"} {
		config := volume.Config{Name: name, Path: filepath.Join(t.TempDir(), name)}
		change(&config)
		if config.Figures == nil && config.TrashRetention > 0 {
			config.Figures = Roomy
		}
		pool, err := volume.New(config)
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

// Roomy are the figures of an empty disk, for pools that keep deleted volumes: the disk that tests run on may
// have less than a tenth free, and kept volumes would go for it.
func Roomy(st *unix.Statfs_t) { st.Bfree, st.Bavail, st.Ffree = st.Blocks, st.Blocks, st.Files }

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
