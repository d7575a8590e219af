package provision

import (
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// examiner is a controller that knows its node and has the open pools legacy,
// which is that of hostPath claims, and fast.
func examiner(t *testing.T) *Controller {
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
	c, err := New(Config{Client: kubernetes.NewForConfigOrDie(&rest.Config{}), Node: "node-01",
		Pools: pools, HostPath: all[0], CSIDriver: class.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	c.facts = &facts{hostname: "host-a", cluster: "c"}
	return c
}

// goodPV is what the agent itself makes for testClaim in a class, with what the
// library adds.
func goodPV(t *testing.T, c *Controller, className string) *corev1.PersistentVolume {
	t.Helper()
	claim, sc := testClaim(testUID, className, ""), testClass(className)
	s := c.shapeNamed(sc.Provisioner)
	name, pool := pvName(claim), s.pool(sc)
	pv := s.newPV(lib.ProvisionOptions{PVName: name, PVC: claim, StorageClass: sc}, pool,
		volume.Volume{Record: volume.Record{Name: name}, Path: filepath.Join(pool.Path(), name)})
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, class.AnnProvisionedBy, sc.Provisioner)
	return pv
}

// examine is what the loop does with a PV that it sees.
func examine(c *Controller, pv *corev1.PersistentVolume) (string, error) {
	s := c.shapeOf(pv)
	if s == nil {
		return "", errors.New("nobody's")
	}
	_, name, err := s.examine(pv)
	return name, err
}

// value is what the PV's affinity names.
func value(pv *corev1.PersistentVolume) []string {
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
}
