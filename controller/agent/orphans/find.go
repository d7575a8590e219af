package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// saveWithin is the age of a new volume up to which its PV may still be saved. The
// provisioning loop deletes an abandoned empty volume long before.
const saveWithin = 5 * time.Minute

type findings struct {
	checked bool // the pool was ready
	volumes []record.Record
	// directories have no record, so the agent may not remove them.
	directories []string
	pvs         []string // names
}

type place struct {
	pool *volume.Pool
	name string
}

// localPVs are the PVs of this node that the provisioning loop has in memory, and the places that
// they name.
type localPVs struct {
	all    []*corev1.PersistentVolume
	places map[place]bool
}

func (o *Checker) localPVs() localPVs {
	s := localPVs{all: o.PVs.All(), places: map[place]bool{}}
	for _, pv := range s.all {
		pool, name := o.PVs.Names(pv)
		s.places[place{pool, name}] = true
	}
	return s
}

// find returns the orphans of a pool. If it cannot decide about some, the error has
// the reasons, and the findings have the others.
func (o *Checker) find(ctx context.Context, pool *volume.Pool, s localPVs) (f findings, err error) {
	volumes, err := pool.List()
	if err != nil {
		return f, err
	}
	unrecorded, err := pool.Unrecorded()
	if err != nil {
		return f, err
	}
	f.checked = true
	var errs []error
	for _, v := range volumes {
		r, err := o.update(ctx, pool, v, s)
		if errs = append(errs, err); r.Orphan.Why != "" {
			f.volumes = append(f.volumes, r)
		}
	}
	for _, r := range pool.SetAside() {
		r, err := o.updateSetAside(ctx, pool, r, s)
		if errs = append(errs, err); r.Orphan.Why != "" {
			f.volumes = append(f.volumes, r)
		}
	}
	for _, u := range unrecorded {
		is, err := o.leftover(ctx, pool, u, s)
		if errs = append(errs, err); is {
			f.directories = append(f.directories, u.Name)
		}
	}
	for _, pv := range s.all {
		is, err := o.missing(ctx, pool, pv)
		if errs = append(errs, err); is {
			f.pvs = append(f.pvs, pv.Name)
		}
	}
	return f, errors.Join(errs...)
}

// pvOf returns the name of a volume's PV. If a sidecar did not pass it on, it is the
// volume's name, because the sidecar gives both the same name.
func pvOf(r record.Record) string { return cmp.Or(r.PV, r.Name) }

// update writes to a volume's record whether it is an orphan, and returns the record.
// It does nothing for an inline volume, which has no PV and which the CSI driver
// checks, and during a migration, in which the PV is replaced.
func (o *Checker) update(ctx context.Context, pool *volume.Pool, v volume.Volume, s localPVs) (record.Record, error) {
	if v.Ephemeral || v.Migrating() != nil {
		return v.Record, nil
	}
	why := ""
	if !s.places[place{pool, v.Name}] {
		if v.State == record.Ready && o.PVs.Age(pool, v) < saveWithin {
			return v.Record, nil
		}
		var err error
		if why, err = o.orphaned(ctx, pool, v.Record); err != nil {
			return v.Record, err
		}
	}
	return o.note(place{pool, v.Name}, v.Record, why)
}

// updateSetAside is update for a volume whose deletion was begun and not finished. Its PV, if
// the agent serves it, finishes the deletion or brings the volume back. A PV that it does not serve,
// as after a change of the form, does neither, so updateSetAside brings the volume back.
func (o *Checker) updateSetAside(ctx context.Context, pool *volume.Pool, r record.Record,
	s localPVs) (record.Record, error) {
	if r.Ephemeral || r.Returning != "" || s.places[place{pool, r.Name}] {
		return record.Record{}, nil
	}
	lost, pv, err := o.lostPV(ctx, pool, r)
	switch {
	case err != nil:
		return record.Record{}, err
	case lost == "":
		return record.Record{}, o.restoreUnserved(ctx, pool, r, pv)
	}
	at, err := pool.AsideAt(r.Name)
	if err != nil {
		return record.Record{}, err
	}
	return o.note(place{pool, r.Name}, r, fmt.Sprintf("%s, and a deletion was begun and not finished: the directory is "+
		"%s in the trash", lost, at))
}

// restoreUnserved brings back a volume that is set aside if the agent does not serve its PV. An agent
// that serves the PV later deletes the volume anew, if the PV still asks for it.
func (o *Checker) restoreUnserved(ctx context.Context, pool *volume.Pool, r record.Record,
	pv *corev1.PersistentVolume) error {
	if at, name := o.PVs.Names(pv); at == pool && name == r.Name {
		return nil // the provisioning loop sees it in a moment
	}
	err := pool.Restore(r.Name)
	switch {
	case errors.Is(err, volume.ErrNotFound): // deleted meanwhile
		return nil
	case err != nil:
		return err
	}
	klog.FromContext(ctx).Info("Brought back a volume whose deletion was begun and not finished: the agent does not serve its PV",
		"volume", r.Name, "PV", pv.Name, "pool", pool.Name())
	o.Events.Warn(ctx, events.PV(pv), "brought back", events.VolumeRefused, fmt.Sprintf("its deletion was begun and not "+
		"finished, and the agent of node %s serves no such PV now, so the directory is back in %s; install the form that "+
		"served it, or serve both kinds of PV (--provision=hostpath,csi), as manifests/examples/both-modes does",
		o.Node.Name, filepath.Join(pool.Path(), r.Name)))
	return nil
}

// lostPV reads a volume's PV from the API server, nil if there is none. lost is the finding that
// there is none, or that the one of that name names another volume; it is "" if the PV may name the
// volume.
func (o *Checker) lostPV(ctx context.Context, pool *volume.Pool,
	r record.Record) (lost string, pv *corev1.PersistentVolume, err error) {
	pv, err = live.PV(ctx, o.Client, pvOf(r))
	switch {
	case err != nil:
		return "", nil, err
	case pv == nil:
		return fmt.Sprintf("PV %s is gone", pvOf(r)), nil, nil
	case !o.PVs.NamesOther(pv, pool, r.Name):
		return "", pv, nil
	}
	return fmt.Sprintf("PV %s names another volume (%s)", pv.Name, named(pv)), pv, nil
}

func named(pv *corev1.PersistentVolume) string {
	text := contract.DirectoryOf(pv)
	if pv.Spec.CSI != nil {
		text = fmt.Sprintf("handle %s of driver %s", pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver)
	}
	if id := pv.Annotations[contract.AnnPool]; id != "" {
		text += " in pool " + id
	}
	if node := cmp.Or(contract.Hostname(pv), contract.TopologyOf(pv)); node != "" {
		text += " on node " + node
	}
	return text
}

// orphaned reads PV and claim of a volume from the API server. It returns why the
// volume is an orphan, or "" if its PV exists or may still be saved.
func (o *Checker) orphaned(ctx context.Context, pool *volume.Pool, r record.Record) (why string, err error) {
	lost, pv, err := o.lostPV(ctx, pool, r)
	if lost == "" || err != nil {
		return "", err
	}
	exists := pv != nil
	if r.Owner.Namespace == "" || r.Owner.Name == "" {
		return lost + "; its claim is not known", nil
	}
	wanted, err := o.claimed(ctx, r)
	claim := r.Owner.Namespace + "/" + r.Owner.Name
	switch {
	case err != nil, wanted && r.State == record.Ready && !exists:
		return "", err
	case wanted:
		return fmt.Sprintf("%s; its claim %s exists", lost, claim), nil
	case r.State == record.Ready && exists:
		return fmt.Sprintf("%s, and claim %s is gone; the volume holds data", lost, claim), nil
	case r.State == record.Ready:
		return fmt.Sprintf("PV %s was never saved, and claim %s is gone; the volume holds data", pvOf(r), claim), nil
	case exists:
		return fmt.Sprintf("%s, and its claim %s is gone", lost, claim), nil
	}
	return fmt.Sprintf("PV %s and its claim %s are gone", pvOf(r), claim), nil
}

// claimed reads from the API server whether a claim needs the volume: its owner, or a
// claim of the same name that names the volume's PV, as a backup restores it.
func (o *Checker) claimed(ctx context.Context, r record.Record) (bool, error) {
	claim, err := live.NamedClaim(ctx, o.Client, r.Owner.Namespace, r.Owner.Name)
	return claim != nil && (string(claim.UID) == r.Owner.UID || claim.Spec.VolumeName == pvOf(r)), err
}

// leftover reports whether a directory without a record has a name that provisioners
// generate, and no PV has that name. Any other directory belongs to the administrator. A PV of
// that name with another path may name the directory all the same, by a link or a mount.
func (o *Checker) leftover(ctx context.Context, pool *volume.Pool, u volume.Unrecorded, s localPVs) (bool, error) {
	name, is := contract.Provisioned(u.Name)
	if !is || u.InUse || s.places[place{pool, u.Name}] {
		return false, nil
	}
	if name == "" {
		return true, nil
	}
	pv, err := live.PV(ctx, o.Client, name)
	return pv == nil && err == nil, err
}

// missing reports whether a PV names a volume of the pool whose directory does not
// exist, and records an event on the PV. If there is no record either, the
// provisioning loop records the event, because it cannot adopt the volume.
func (o *Checker) missing(ctx context.Context, pool *volume.Pool, pv *corev1.PersistentVolume) (bool, error) {
	at, name := o.PVs.Names(pv)
	if at != pool || contract.Leaving(pv) {
		return false, nil
	}
	v, err := pool.Get(name)
	recorded := err == nil
	switch {
	case errors.Is(err, volume.ErrSetAside):
		return false, nil // the provisioning loop brings it back
	case errors.Is(err, volume.ErrNotFound):
		if there, err := pool.HasDirectory(name); there || err != nil {
			return false, err
		}
	case errors.Is(err, volume.ErrDamaged), errors.Is(err, volume.ErrInvalid):
		return false, nil // the provisioning loop records that
	case err != nil:
		return false, err
	case !v.Missing:
		return false, nil
	}
	// The PV in memory may be older than a deletion that is in progress.
	now, err := live.PV(ctx, o.Client, pv.Name)
	if now == nil || err != nil || now.UID != pv.UID || contract.Leaving(now) {
		return false, err
	}
	if recorded {
		o.Events.Warn(ctx, events.PV(now), "missing", events.VolumeMissing,
			fmt.Sprintf("the directory %s on node %s is missing: it was removed; "+
				"restore it from a backup; docs/runbooks/HPPVolumesMissing.md has what to look for before it is given up",
				v.Path, o.Node.Name))
	}
	return true, nil
}
