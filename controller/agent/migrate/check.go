package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// servedFor is how long it counts in a plan that CSI PVs can be used on the node. It is read again
// before a migration begins.
var servedFor = timing.Scaled(time.Minute)

// candidate is a PV of this node with its verdict.
type candidate struct {
	subject
	Entry
	next  *corev1.PersistentVolume // the PV that replaces it, if it is Ready
	job   *job                     // of a migration in progress
	retry bool                     // the API server refused it, and may be asked again
	// elsewhere is set for a migration of another cluster, which has no job.
	elsewhere bool
}

// check returns the PVs of this node that are or were hostPath PVs, with their
// verdicts: first those with a migration in progress, each part sorted by name.
func (m *Migrator) check(ctx context.Context) (all []candidate) {
	open := map[string]bool{}
	for _, pool := range m.Pools.All() {
		records, err := pool.Migrations()
		if err != nil {
			continue // not ready, which package monitor reports
		}
		for _, r := range records {
			all = append(all, m.inProgress(pool, r))
			open[r.PV] = true
		}
	}
	if m.Mode == settings.MigrateOff {
		return all
	}
	moving, n := len(all), m.node(ctx, false)
	for _, pv := range slices.Concat(m.PVs.All(), m.PVs.Migratable()) {
		if open[pv.Name] {
			continue
		}
		s := m.subject(ctx, pv, false)
		if pv.Spec.CSI != nil && s.v.Migration == nil {
			continue // never a hostPath PV
		}
		f := n.candidate(s)
		f.retry = m.refused(&f)
		all = append(all, f)
	}
	byPV := func(a, b candidate) int { return cmp.Compare(a.PV, b.PV) }
	slices.SortStableFunc(all[:moving], byPV)
	slices.SortStableFunc(all[moving:], byPV)
	return all
}

// candidate returns the subject with its verdict.
func (n *node) candidate(s subject) candidate {
	f := candidate{subject: s, Entry: Entry{PV: s.pv.Name, Claim: reference(s.pv),
		Directory: cmp.Or(s.v.Path, contract.DirectoryOf(s.pv))}}
	f.To, f.next, f.Verdict, f.Reason = n.verdict(s)
	return f
}

// inProgress returns the candidate of a volume that is being migrated.
func (m *Migrator) inProgress(pool *volume.Pool, r record.Record) candidate {
	v := volume.Volume{Record: r, Path: pool.Path() + "/" + r.Name}
	f := candidate{subject: subject{pool: pool, v: v}, Entry: Entry{
		PV: v.PV, Claim: v.Owner.Namespace + "/" + v.Owner.Name, Directory: v.Path,
		To: v.Migration.To, Verdict: Moving, Reason: string(v.Migration.Step),
	}}
	if v.Migration.Stopped != "" {
		f.Verdict, f.Reason = Stopped, v.Migration.Stopped
	}
	if m.isElsewhere(pool, r) {
		f.elsewhere, f.Verdict, f.Reason = true, Left, ofOtherCluster
		return f
	}
	job, err := readJob(pool, r)
	if err != nil {
		f.Verdict, f.Reason = Stopped, err.Error()
		return f
	}
	contract.Relocate(job.new, v.Path, m.PVs.At(pool))
	if csi := job.new.Spec.CSI; csi != nil && csi.VolumeAttributes[contract.StoragePool] != "" {
		csi.VolumeAttributes[contract.StoragePool] = pool.Name() // a setting may have renamed it
	}
	f.job = job
	return f
}

// subject collects what the verdict about a PV depends on. With fresh the claim and Nodes
// are read from the API server, else from memory.
func (m *Migrator) subject(ctx context.Context, pv *corev1.PersistentVolume, fresh bool) (s subject) {
	s.pv = pv
	if s.pool, s.v, s.err = m.PVs.Validate(ctx, pv, fresh); s.err != nil {
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

// mountedAt returns a target at which the driver has mounted a volume, or "". It
// returns "" for a volume whose directory is missing.
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

// node returns the state of node and cluster, which is read when a verdict needs it: most checks find
// nothing to migrate. With fresh it is read from the API server; else it may be servedFor old.
func (m *Migrator) node(ctx context.Context, fresh bool) *node {
	unserved := sync.OnceValue(func() error {
		if !fresh && time.Since(m.served) < servedFor {
			return nil
		}
		err := m.unserved(ctx)
		if m.served = time.Now(); err != nil {
			m.served = time.Time{}
		}
		return err
	})
	return &node{mode: m.Mode, driver: m.Driver, name: m.Node, used: m.Used, pvs: m.PVs, unserved: unserved,
		localUser: m.localUsers(ctx), remoteUser: m.remoteUsers(ctx)}
}

// unserved returns why no CSI PV can be used on this node, or nil.
func (m *Migrator) unserved(ctx context.Context) error {
	d, err := m.Client.StorageV1().CSIDrivers().Get(ctx, m.Driver, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no CSIDriver %s; apply the one of manifests/csi", m.Driver)
	case err != nil:
		return readError("read CSIDriver "+m.Driver, err)
	case contract.WaitsForAttacher(d):
		return fmt.Errorf("the CSIDriver %s has not attachRequired: false, so pods would wait for an attacher, and that "+
			"field cannot be changed; replace the object by the one of manifests/csi (kubectl replace --force)", m.Driver)
	case d.Spec.FSGroupPolicy != nil && *d.Spec.FSGroupPolicy == "File":
		return fmt.Errorf("the CSIDriver %s has fsGroupPolicy: File, so the kubelet would change the groups of files; set "+
			"ReadWriteOnceWithFSType", m.Driver)
	}
	isOurs := func(d storagev1.CSINodeDriver) bool { return d.Name == m.Driver }
	n, err := m.Client.StorageV1().CSINodes().Get(ctx, m.Node, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return readError("read CSINode "+m.Node, err)
	case err == nil && slices.ContainsFunc(n.Spec.Drivers, isOurs):
		return nil
	}
	return fmt.Errorf("the kubelet of node %s does not know the CSI driver %s yet", m.Node, m.Driver)
}

// readError wraps the error of a request, and names the fix if a permission is missing.
func readError(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w; apply the ClusterRole of manifests/examples/migrate", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
