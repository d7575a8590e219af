package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/migration"
)

// found is a PV of this node, with its answer.
type found struct {
	subject
	Entry
	next *corev1.PersistentVolume // what takes its place, where it is Ready
	job  *job                     // where a migration is under way
}

// look judges every PV of this node that is, or was, no CSI PV, in the
// order of their names, those under way first.
func (m *Migrator) look(ctx context.Context) (all []found) {
	busy := map[string]bool{}
	for _, pool := range m.pools.All() {
		holds, err := pool.Migrations()
		if err != nil {
			continue // the pool is not ready, which the monitor reports
		}
		for _, h := range holds {
			all = append(all, m.underWay(pool, h))
			busy[h.Volume.PV] = true
		}
	}
	if m.mode == Off {
		return all
	}
	n := m.surroundings(ctx)
	for _, pv := range slices.Concat(m.loop.PVs(), m.loop.Others()) {
		if busy[pv.Name] {
			continue
		}
		s := m.subject(ctx, pv, false)
		if pv.Spec.CSI != nil && s.v.Migration == nil {
			continue // it never was anything else
		}
		all = append(all, n.found(s))
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.PV, b.PV))
	})
	return all
}

func rank(f found) int {
	if f.job != nil {
		return 0
	}
	return 1
}

// found is the subject with its answer.
func (n *node) found(s subject) found {
	f := found{subject: s, Entry: Entry{PV: s.pv.Name, Directory: s.v.Path}}
	if ref := s.pv.Spec.ClaimRef; ref != nil {
		f.Claim = ref.Namespace + "/" + ref.Name
	}
	f.Directory = cmp.Or(f.Directory, class.DirectoryOf(s.pv))
	f.To, f.next, f.Verdict, f.Reason = n.judge(s)
	return f
}

// underWay describes a volume that is held by a migration.
func (m *Migrator) underWay(pool *volume.Pool, h *migration.Hold) found {
	v := volume.Volume{Record: h.Volume, Path: pool.Path() + "/" + h.Volume.Name}
	f := found{subject: subject{pool: pool, v: v}, Entry: Entry{
		PV: v.PV, Claim: v.Owner.Namespace + "/" + v.Owner.Name, Directory: v.Path,
		To: v.Migration.To, Verdict: Moving, Reason: string(v.Migration.Step),
	}}
	if v.Migration.Stopped != "" {
		f.Verdict, f.Reason = Stopped, v.Migration.Stopped
	}
	job, err := readJob(pool, h)
	if err != nil {
		f.Verdict, f.Reason = Stopped, err.Error()
	}
	f.job = job
	return f
}

// subject collects what is known of a PV; fresh asks the API server for the
// claim, which else may be some moments old.
func (m *Migrator) subject(ctx context.Context, pv *corev1.PersistentVolume, fresh bool) (s subject) {
	s.pv = pv
	if s.pool, s.v, s.err = m.loop.Examine(pv); s.err != nil {
		return s
	}
	if pv.Spec.CSI != nil {
		s.mountedAt, s.err = mountedAt(s.pool, s.v)
	}
	if s.err == nil {
		s.claim, s.err = m.claim(ctx, pv, fresh)
	}
	return s
}

// mountedAt is where the driver shows a volume to a pod, "" for nowhere. One
// whose directory is gone is judged by its record.
func mountedAt(pool *volume.Pool, v volume.Volume) (at string, err error) {
	if v.Missing {
		return "", nil
	}
	err = pool.Pin(v.Name, func(p volume.Pinned) error {
		if len(p.MountedAt) > 0 {
			at = p.MountedAt[0]
		}
		return nil
	})
	return at, err
}

// claim returns the claim that a PV names by its UID, nil where that is gone.
func (m *Migrator) claim(ctx context.Context, pv *corev1.PersistentVolume, fresh bool) (*corev1.PersistentVolumeClaim, error) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	if obj, ok, err := m.claims.GetByKey(ref.Namespace + "/" + ref.Name); ok && err == nil && !fresh {
		if c, ok := obj.(*corev1.PersistentVolumeClaim); ok && c.UID == ref.UID {
			return c, nil
		}
	}
	return live.Claim(ctx, m.client, volume.Owner{Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)})
}

// surroundings asks what CSI PVs need on this node, and who uses volumes.
func (m *Migrator) surroundings(ctx context.Context) *node {
	return &node{mode: m.mode, driver: m.driver, name: m.name, used: m.used, unserved: m.unserved(ctx),
		users: m.usersOnce(ctx), elsewhere: m.elsewhere(ctx)}
}

// unserved says why no CSI PV could be used on this node.
func (m *Migrator) unserved(ctx context.Context) error {
	d, err := m.client.StorageV1().CSIDrivers().Get(ctx, m.driver, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no CSIDriver %s; apply the one of manifests/csi", m.driver)
	case err != nil:
		return asked("read CSIDriver "+m.driver, err)
	case d.Spec.AttachRequired == nil || *d.Spec.AttachRequired:
		return fmt.Errorf("the CSIDriver %s has not attachRequired: false, so pods would wait for an attacher that is not there; delete it, and apply the one of manifests/csi", m.driver)
	case d.Spec.FSGroupPolicy != nil && *d.Spec.FSGroupPolicy == "File":
		return fmt.Errorf("the CSIDriver %s has fsGroupPolicy: File, so the kubelet would rewrite the files' groups; set ReadWriteOnceWithFSType", m.driver)
	}
	n, err := m.client.StorageV1().CSINodes().Get(ctx, m.name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return asked("read CSINode "+m.name, err)
	case err == nil:
		for _, known := range n.Spec.Drivers {
			if known.Name == m.driver {
				return nil
			}
		}
	}
	return fmt.Errorf("the kubelet of node %s does not know the CSI driver %s yet", m.name, m.driver)
}

// asked is the error of a question, with the fix where it is one of permissions.
func asked(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w; apply the ClusterRole of manifests/examples/migrate", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
