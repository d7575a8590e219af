package pvs

import (
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPath implements rules for hostPath PVs. All their volumes are in one pool, and a PV
// names the path of its directory.
type hostPath struct {
	node Node
	pool *volume.Pool
}

func newHostPathBackend(node Node, pool *volume.Pool) *backend {
	return &backend{rules: hostPath{node: node, pool: pool}, provisioner: class.HostPathProvisioner}
}

func (h hostPath) ofThisNode(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[class.AnnProvisionedBy] == class.HostPathProvisioner &&
		pv.Annotations[class.AnnProvisionOnNode] == h.node.Name()
}

func (h hostPath) names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	source := pv.Spec.HostPath
	if source == nil || filepath.Dir(source.Path) != h.pool.Path() {
		return nil, ""
	}
	return h.pool, filepath.Base(source.Path)
}

func (h hostPath) validate(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	source := pv.Spec.HostPath
	if source == nil {
		return nil, "", errors.New("it names this agent's provisioner but has no hostPath")
	}
	for _, want := range []struct{ key, value string }{
		{class.AnnProvisionedBy, class.HostPathProvisioner},
		{class.AnnIdentity, class.HostPathProvisioner},
		{class.AnnProvisionOnNode, h.node.Name()},
	} {
		if got := pv.Annotations[want.key]; got != want.value {
			return nil, "", fmt.Errorf("annotation %s is %q, not %q", want.key, got, want.value)
		}
	}
	// An older provisioner wrote the node's name instead of its hostname label.
	if host := class.Hostname(pv); host != h.node.Hostname() && host != h.node.Name() {
		return nil, "", fmt.Errorf("its node affinity is not just %s=%s", corev1.LabelHostname, h.node.Hostname())
	}
	if err := checkPool(pv, h.pool); err != nil {
		return nil, "", err
	}
	name := filepath.Base(source.Path)
	if filepath.Join(h.pool.Path(), name) != source.Path {
		return nil, "", fmt.Errorf("its path %q is not a directory right below the pool's, %s", source.Path, h.pool.Path())
	}
	return h.pool, name, volume.CheckName(name)
}

// adoptable requires that the PV and the directory are named after the claim, because any
// writer of PVs can choose the path.
func (h hostPath) adoptable(pv *corev1.PersistentVolume, _ *volume.Pool, directory string) error {
	return namedAfterClaim(pv, directory)
}

// deletable returns nil: validate has checked the provisioner of the PV.
func (h hostPath) deletable(*corev1.PersistentVolume) error { return nil }
