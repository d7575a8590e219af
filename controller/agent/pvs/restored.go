package pvs

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Restored returns a PV that the agent would accept for a volume whose PV is gone, for that claim
// and with policy Retain. It has the recorded name, and no claimRef. If the claim names no class,
// the PV and the claim get the first of the classes whose volumes are in the pool, preferably one
// of the recorded policy. Restored changes the claim alone.
//
// The capacity is what is allocated to the volume. Where that is not known, because its directory was
// adopted, it is what the claim requests, and at most the size of the disk: the request may be a growth that
// no provisioner served. The claim then requests no more than the capacity.
//
// A migrated volume gets the kind of PV that it had last, which the journal of an open migration
// has, and another one the recorded kind, or that of the claim's class. If none is known, a hostPath
// PV takes precedence over a CSI PV, with which the kubelet may change the group of files. The error
// is that of each kind of PV that was tried.
func (p *PVs) Restored(pool *volume.Pool, v volume.Volume, claim *corev1.PersistentVolumeClaim,
	classes []storagev1.StorageClass) (*corev1.PersistentVolume, error) {
	if v.PV == "" {
		return nil, fmt.Errorf("the record of volume %s names no PV", v.Name)
	}
	var errs []error
	for _, b := range p.backendsFor(v, claim, classes) {
		sc := b.classOf(pool, claim, classes, v.ReclaimPolicy)
		made := claim.DeepCopy()
		made.Spec.StorageClassName = &sc.Name
		pv := b.restored(v, pool, made, sc, p.At(pool))
		contract.RestorePV(pv, v.Claim)
		if err := setSize(pv, made, pool, v.Bytes); err != nil {
			return nil, err
		}
		if err := b.wouldAccept(pv, pool, v); err != nil {
			errs = append(errs, fmt.Errorf("as a PV of %s: %w", b.Provisioner, err))
			continue
		}
		made.DeepCopyInto(claim)
		return pv, nil
	}
	return nil, fmt.Errorf("volume %s: the agent would accept no PV: %w", v.Name, errors.Join(errs...))
}

// setSize sets the capacity of a PV that is made again, for a volume to which so many bytes are allocated, 0 if
// that is not known.
func setSize(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, pool *volume.Pool, bytes int64) error {
	size := *pv.Spec.Capacity.Storage()
	if bytes > 0 {
		size = *resource.NewQuantity(bytes, resource.BinarySI)
	} else {
		space, err := pool.Space()
		if err != nil {
			return err
		}
		if whole := contract.WholeDisk(space.Total, 0); size.Cmp(whole) > 0 {
			size = whole
		}
	}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
	if claim.Spec.Resources.Requests.Storage().Cmp(size) > 0 {
		claim.Spec.Resources.Requests = pv.Spec.Capacity.DeepCopy()
	}
	return nil
}

// backendsFor returns the backends by precedence.
func (p *PVs) backendsFor(v volume.Volume, claim *corev1.PersistentVolumeClaim,
	classes []storagev1.StorageClass) []*backend {
	first := func(*backend) bool { return false }
	if isCSI, known := lastKind(v.Migration); known {
		first = func(b *backend) bool { return b.IsCSI == isCSI }
	} else if v.Claim != nil && p.backendNamed(v.Claim.Provisioner) != nil {
		first = func(b *backend) bool { return b.Provisioner == v.Claim.Provisioner }
	} else if i := slices.IndexFunc(classes, func(sc storagev1.StorageClass) bool {
		return sc.Name == contract.Of(claim)
	}); i >= 0 {
		first = func(b *backend) bool { return b.Provisioner == classes[i].Provisioner }
	}
	preferred := slices.DeleteFunc(slices.Clone(p.backends), func(b *backend) bool { return !first(b) })
	others := slices.DeleteFunc(slices.Clone(p.backends), first)
	return append(preferred, others...)
}

// lastKind returns the kind of PV that a migrated volume had last: the new one from the cutover on,
// when the old one may be gone, and before that the old one.
func lastKind(m *record.Migration) (isCSI, known bool) {
	switch {
	case m == nil:
		return false, false
	case m.Step != record.MigrationPrepared:
		return m.To == "csi", true
	case m.Before != nil:
		return lastKind(m.Before)
	}
	return m.To != "csi", true
}

// classOf returns the claim's class, or the first of those whose volumes may be in the pool. A
// class that does not exist has a provisioner alone, and the claim's name for it.
func (b *backend) classOf(pool *volume.Pool, claim *corev1.PersistentVolumeClaim, classes []storagev1.StorageClass,
	policy string) *storagev1.StorageClass {
	name := contract.Of(claim)
	chosen := name != "" || claim.Spec.StorageClassName != nil
	found := slices.DeleteFunc(slices.Clone(classes), func(sc storagev1.StorageClass) bool {
		return sc.Provisioner != b.Provisioner || chosen && sc.Name != name || !chosen && !b.mayUse(pool, sc)
	})
	if len(found) == 0 {
		none := &storagev1.StorageClass{Provisioner: b.Provisioner}
		none.Name = name
		return none
	}
	slices.SortFunc(found, func(x, y storagev1.StorageClass) int {
		return cmp.Or(cmp.Compare(differs(x, policy), differs(y, policy)), cmp.Compare(x.Name, y.Name))
	})
	return &found[0]
}

// differs returns 1 if new PVs of the class have another reclaim policy.
func differs(sc storagev1.StorageClass, policy string) int {
	if string(contract.ReclaimPolicy("", &sc)) == policy {
		return 0
	}
	return 1
}

func (b *backend) mayUse(pool *volume.Pool, sc storagev1.StorageClass) bool {
	if b.IsCSI {
		return contract.PoolName(sc.Parameters) == pool.Name()
	}
	path := ""
	if b.Dialect.PathParameter != "" {
		path = sc.Parameters[b.Dialect.PathParameter]
	}
	return path == "" || filepath.Clean(path) == pool.Path()
}

func (b *backend) restored(v volume.Volume, pool *volume.Pool, claim *corev1.PersistentVolumeClaim,
	sc *storagev1.StorageClass, at contract.Place) *corev1.PersistentVolume {
	const policy = corev1.PersistentVolumeReclaimRetain
	if !b.IsCSI {
		return b.Dialect.PV(v.PV, filepath.Join(pool.Path(), v.Name), claim, sc, at, policy)
	}
	pv := contract.CSIPV(v.PV, v.Name, pool.Name(), claim, sc, at, policy)
	pv.Annotations[contract.AnnProvisionedBy] = b.Provisioner
	if _, migrated := lastKind(v.Migration); migrated {
		pv.Spec.CSI.FSType = "" // as in contract.MigratedCSIPV
	}
	return pv
}

// wouldAccept returns nil if a PV that is not saved yet would be valid for the volume. A claim that
// the record does not name is no error: it is a new one, to which the agent transfers the volume
// once both are bound.
func (b *backend) wouldAccept(pv *corev1.PersistentVolume, pool *volume.Pool, v volume.Volume) error {
	in, name, err := b.validate(pv)
	switch {
	case err != nil:
		return err
	case in != pool || name != v.Name:
		return fmt.Errorf("it would name the volume %s in %s", name, in.Path())
	case v.State != record.Bound && v.State != record.Ready:
		return fmt.Errorf("the volume is %s", v.State)
	}
	if err := b.matches(v, pv); !errors.As(err, new(claimMismatch)) {
		return err
	}
	return nil
}
