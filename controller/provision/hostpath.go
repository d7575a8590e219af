package provision

import (
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/claims"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// hostPathShape is the shape of class.HostPathProvisioner: all volumes in one
// pool, and PVs that name the directory's path.
type hostPathShape struct {
	*Controller
	in     *volume.Pool
	prefix bool
}

func (s *hostPathShape) provisioner() string { return class.HostPathProvisioner }

func (s *hostPathShape) rule() claims.Rule { return claims.PlaceHostPath }

func (s *hostPathShape) check(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) error {
	if err := class.CheckSupported(claim, class.HostPathModes); err != nil {
		return err
	}
	return class.CheckHostPath(sc)
}

func (s *hostPathShape) pool(*storagev1.StorageClass) *volume.Pool { return s.in }

// A claim that an annotation places is never given back: the library would
// write its prepared copy to the API server.
func (s *hostPathShape) givesBack(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass, r *refusal) bool {
	return r.topic == topicSpace && class.Delayed(sc) && !class.NamesNode(claim)
}

func (s *hostPathShape) ignored(*corev1.PersistentVolumeClaim) string { return "" }

func (s *hostPathShape) directory(pv string, claim *corev1.PersistentVolumeClaim) string {
	return class.Directory(pv, claim.Name, s.prefix)
}

func (s *hostPathShape) newPV(o lib.ProvisionOptions, pool *volume.Pool, v volume.Volume) *corev1.PersistentVolume {
	return class.HostPathPV(o.PVName, v.Path, o.PVC, o.StorageClass, s.here(pool), s.policyOf(o.StorageClass))
}

func (s *hostPathShape) ofThisNode(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[class.AnnProvisionedBy] == class.HostPathProvisioner &&
		pv.Annotations[class.AnnProvisionOnNode] == s.node
}

func (s *hostPathShape) names(pv *corev1.PersistentVolume) (*volume.Pool, string) {
	source := pv.Spec.HostPath
	if source == nil || filepath.Dir(source.Path) != s.in.Path() {
		return nil, ""
	}
	return s.in, filepath.Base(source.Path)
}

func (s *hostPathShape) examine(pv *corev1.PersistentVolume) (*volume.Pool, string, error) {
	source := pv.Spec.HostPath
	if source == nil {
		return nil, "", errors.New("it names our provisioner but has no hostPath")
	}
	for _, want := range []struct{ key, value string }{
		{class.AnnProvisionedBy, class.HostPathProvisioner},
		{class.AnnIdentity, class.HostPathProvisioner},
		{class.AnnProvisionOnNode, s.node},
	} {
		if got := pv.Annotations[want.key]; got != want.value {
			return nil, "", fmt.Errorf("annotation %s is %q, not %q", want.key, got, want.value)
		}
	}
	// An older provisioner wrote the node's name, whatever the label is.
	if h := class.Hostname(pv); h != s.info.Hostname() && h != s.node {
		return nil, "", fmt.Errorf("its node affinity is not just %s=%s", corev1.LabelHostname, s.info.Hostname())
	}
	if err := checkPool(pv, s.in); err != nil {
		return nil, "", err
	}
	name := filepath.Base(source.Path)
	if filepath.Join(s.in.Path(), name) != source.Path {
		return nil, "", fmt.Errorf("its path %q is not a directory right below the pool's, %s", source.Path, s.in.Path())
	}
	return s.in, name, volume.CheckName(name)
}

func (s *hostPathShape) matches(v volume.Volume, pv *corev1.PersistentVolume) error {
	return matches(v, pv)
}

// adoptable: anybody who may write PVs can name any path, so that the name is
// all there is to tell by.
func (s *hostPathShape) adoptable(pv *corev1.PersistentVolume, _ *volume.Pool, directory string) error {
	return namedAfterClaim(pv, directory)
}

func (s *hostPathShape) labels(pv *corev1.PersistentVolume, pool *volume.Pool, directory string) error {
	return s.adoptable(pv, pool, directory)
}

// unclaimed: the capacity that an older provisioner wrote was the whole disk's.
func (s *hostPathShape) unclaimed(*corev1.PersistentVolume) int64 { return 0 }

// deletes: examine has seen the annotation that says so.
func (s *hostPathShape) deletes(*corev1.PersistentVolume) error { return nil }
